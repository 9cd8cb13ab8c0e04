"""exp, expm1, sinh, cosh and tanh.

x = n ln 2 + r with |r| <= ln(2) / 2, exp(x) = 2^n (1 + r + r^2 EXP(r)). The functions expm1, sinh
and cosh use (exp(x) - 1) / 4 as a sum of two floats: a quarter, so that nothing overflows before
the result.
"""

from xla_server.codegen.functions import values
from xla_server.codegen.functions.real.irrational import LN2, LN2_PARTS, LOG2_E
from xla_server.codegen.functions.values import Coefficients

EXP: Coefficients = {
    "f32": (
        0.4999999701976776, 0.1666654348373413, 0.04166720062494278, 0.0083665382117033,
        0.001388252479955554,
    ),
    "f64": (
        0.5, 0.16666666666666677, 0.04166666666666651, 0.008333333333321665, 0.001388888888896249,
        0.00019841269886038563, 2.480158717241574e-05, 2.75572442932134e-06, 2.7557402658667627e-07,
        2.5109009601749586e-08, 2.0875351748786337e-09,
    ),
}  # fmt: skip
"""(exp(r) - 1 - r) / r^2, |r| <= ln(2) / 2; error relative to expm1(r).

Error before rounding: f32 2^-26.2, f64 2^-61.7.
"""

EXP2_OF_TANH: Coefficients = {
    "f64": (
        0.6931471805599453, 0.24022650695910133, 0.05550410866482174, 0.009618129107592766,
        0.0013333558146378247, 0.00015403530458858988, 1.5252733868290944e-05,
        1.3215434400247871e-06, 1.0178046152437092e-07, 7.073936020606842e-09,
        4.457433323236473e-10,
    ),
}  # fmt: skip
"""(2^f - 1) / f, |f| <= 1 / 2, for tanh; error relative to 1.

Error before rounding: f64 2^-58.0.
"""

SINH: Coefficients = {
    "f32": (
        0.1666666716337204, 0.008333350531756878, 0.0001983606634894386, 2.8174395083624404e-06,
    ),
    "f64": (
        0.16666666666666666, 0.00833333333333326, 0.0001984126984136889, 2.7557319173928e-06,
        2.505212079928209e-08, 1.6057421889601394e-10, 7.754299651516796e-13,
    ),
}  # fmt: skip
"""(sinh(r) - r) / r^3 in z = r^2, |r| <= 1; relative.

Error before rounding: f32 2^-34.0, f64 2^-62.7.
"""

TANH: Coefficients = {
    "f32": (
        -0.33333322405815125, 0.13331177830696106, -0.052725087851285934,
    ),
    "f64": (
        -0.333333333333333, 0.13333333333326952, -0.05396825396395041, 0.021869488391229926,
        -0.008863232688807152, 0.003592092908236541, -0.0014555484794777564, 0.0005884676287733787,
        -0.0002334404404268258, 8.340091983440524e-05, -1.9546940852600475e-05,
    ),
}  # fmt: skip
"""(tanh(r) - r) / r^3 in z = r^2, |r| <= 0.1734 for f32 or 0.5494 for f64; relative.

Error before rounding: f32 2^-32.6, f64 2^-60.7.
"""

_TOP = {"f32": 89.0, "f64": 710.0}
"""Clamp of exp's argument: exp is infinite there, and 2^n still has a valid exponent."""

_BOTTOM = {"f32": -105.0, "f64": -746.0}
"""Lower clamp of exp's argument: exp is zero there."""

_TOP_OF_HALF = {"f32": 89.6, "f64": 710.6}
"""The same for exp / 2, which is infinite there, and the exponent of exp / 4."""

_MINUS_ONE = {"f32": -20.0, "f64": -40.0}
"""Lower clamp of expm1's argument: expm1 is -1 there."""

_ONE = {"f32": 9.02, "f64": 19.1}
"""Argument from which tanh is 1."""

_HALF_LN3 = 0.54931
"""Argument beyond which tanh is 1 - 2 / (e^2x + 1): there tanh is 1/2 or a little more, so that the
difference halves the quotient's error."""

TINY = {"f32": 2.0**-30, "f64": 2.0**-60}
"""Size of arguments below which atan x, expm1 x, log1p x and similar functions round to x."""


def _plainly_reduced(x: values.Value) -> tuple[values.Value, values.Value]:
    """Return (n, r): x = n ln 2 + r, with r rounded."""
    high_part, low_part = LN2_PARTS[x.type]
    n, whole = values.nearest(x, LOG2_E)
    return whole, values.fma(n, -low_part, values.fma(n, -high_part, x))


def reduced(
    x: values.Value, low: values.Value | None = None
) -> tuple[values.Value, values.Value, values.Value]:
    """Return (n, r, rest): x + low = n ln 2 + r + rest, with n an i32."""
    high_part, low_part = LN2_PARTS[x.type]
    n, whole = values.nearest(x, LOG2_E)
    high = values.fma(n, -high_part, x)
    correction = n * -low_part if low is None else values.fma(n, -low_part, low)
    r = high + correction
    return whole, r, (high - r) + correction


def scaled(x: values.Value, n: values.Value) -> values.Value:
    """Return x 2^n, in two steps so that results may be subnormal or infinite."""
    half = n >> 1
    return x * values.power_of_two(half, x.type) * values.power_of_two(n - half, x.type)


def exp_of_sum(x: values.Value, low: values.Value) -> values.Value:
    """Return exp(x + low); |low| must be far below |x|, and x within the clamps of exp."""
    n, r, rest = reduced(x, low)
    near, error = values.exact_sum_ordered(x.constant(1), r)
    tail = values.fma(r * r, values.polynomial(r, EXP[x.type]), rest)
    return scaled(near + (error + tail), n)


def exp(x: values.Value) -> values.Value:
    """e^x."""
    n, r = _plainly_reduced(values.clamped(x, _BOTTOM[x.type], _TOP[x.type]))
    return scaled(1 + values.fma(r * r, values.polynomial(r, EXP[x.type]), r), n)


def precise_exp(x: values.Value) -> values.Value:
    """Return e^x from a reduced argument of two floats, within 0.6 ULP."""
    return exp_of_sum(values.clamped(x, _BOTTOM[x.type], _TOP[x.type]), x.constant(0))


def _quarter_of_expm1(x: values.Value) -> tuple[values.Value, values.Value]:
    n, r, rest = reduced(x)
    tail = values.fma(r * r, values.polynomial(r, EXP[x.type]), rest)
    scale = values.power_of_two(n - 2, x.type)
    high, low = values.exact_sum(scale - 0.25, scale * r)
    return high, values.fma(scale, tail, low)


def expm1(x: values.Value) -> values.Value:
    """e^x - 1."""
    high, low = _quarter_of_expm1(values.clamped(x, _MINUS_ONE[x.type], _TOP_OF_HALF[x.type]))
    return values.select(abs(x) >= TINY[x.type], 4 * (high + low), x)


def sinh(x: values.Value) -> values.Value:
    """(e^x - e^-x) / 2; near 0 a polynomial."""
    size = abs(x)
    high, low = _quarter_of_expm1(values.at_most(size, _TOP_OF_HALF[x.type]))
    high = high + 0.25
    z = x * x
    near = values.fma(x * z, values.polynomial(z, SINH[x.type]), x)
    far = 2 * (high + (low - 0.0625 / (high + low)))
    result = values.with_sign(values.select(size > 1, far, near), x)
    return values.select(size >= TINY[x.type], result, x)


def cosh(x: values.Value) -> values.Value:
    """(e^x + e^-x) / 2."""
    high, low = _quarter_of_expm1(values.at_most(abs(x), _TOP_OF_HALF[x.type]))
    quarter = (high + 0.25) + low
    return values.select(x.differs(x), x, 2 * (quarter + 0.0625 / quarter))


def tanh(x: values.Value) -> values.Value:
    """Return the hyperbolic tangent; f32 uses another formula, a third faster and less exact."""
    return _tanh_f32(x) if x.type == "f32" else _tanh_f64(x)


def _tanh_f32(x: values.Value) -> values.Value:
    """Return tanh(n ln(2) / 2 + r), |r| <= ln(2) / 4, by the addition theorem."""
    kept = values.clamped(x, -_ONE["f32"], _ONE["f32"])
    n, whole = values.nearest(kept, 2 * LOG2_E)
    # The constant as f32 is off by 2^-30, and |n| is at most 26: it needs no second part.
    r = values.fma(n, float(-LN2 / 2), kept)
    z = r * r
    t = values.fma(r * z, values.polynomial(z, TANH["f32"]), r)
    scale = values.power_of_two(whole, "f32")
    less, more = scale - 1, scale + 1
    quotient = values.fma(more, t, less) / values.fma(less, t, more)
    return values.select(abs(x) >= TINY["f32"], quotient, x)


def _tanh_f64(x: values.Value) -> values.Value:
    """Return 1 - 2 / (e^2x + 1), e^2x = 2^n 2^f; near 0 a polynomial. Flushes subnormal x."""
    size, z = abs(x), x * x
    near = values.fma(size * z, values.polynomial(z, TANH["f64"]), size)
    kept = values.select(size > _ONE["f64"], x.constant(_ONE["f64"]), size)
    n, whole = values.nearest(kept, 2 * LOG2_E)
    f = values.fma(kept, 2 * LOG2_E, -n)
    scale = values.power_of_two(whole, "f64")
    far = 1 - 2 / values.fma(scale * f, values.polynomial(f, EXP2_OF_TANH["f64"]), scale + 1)
    return values.with_sign(values.select(size > _HALF_LN3, far, near), x)


FORMULAS = values.family(exp, expm1, sinh, cosh, tanh)
"""Every function of this module by its name in kernels."""
