"""exp, expm1, sinh, cosh and tanh.

x = n ln 2 + r with |r| <= ln(2) / 2, exp(x) = 2^n (1 + r + r^2 EXP(r)). Those with a difference
use (exp(x) - 1) / 4 as a sum of two floats: a quarter, so that nothing overflows before the result.
"""

from xla_server.codegen.functions import values
from xla_server.codegen.functions.real.coefficients import EXP, EXP2_OF_TANH, SINH, TANH
from xla_server.codegen.functions.real.irrational import LN2, LN2_PARTS, LOG2_E

_TOP = {"f32": 89.0, "f64": 710.0}
"""Argument at which exp is infinite and its exponent still fits."""

_BOTTOM = {"f32": -105.0, "f64": -746.0}
"""Argument at which exp is zero."""

_TOP_OF_HALF = {"f32": 89.6, "f64": 710.6}
"""Argument at which exp / 2 is infinite and the exponent of exp / 4 still fits."""

_MINUS_ONE = {"f32": -20.0, "f64": -40.0}
"""Argument below which expm1 is -1."""

_ONE = {"f32": 9.02, "f64": 19.1}
"""Argument from which tanh is 1."""

_HALF_LN3 = 0.54931
"""Argument at which tanh is 1/2, or a little more; beyond it the error of 2 / (e^2x + 1) halves."""

TINY = {"f32": 2.0**-30, "f64": 2.0**-60}
"""Size of arguments below which atan x, expm1 x, log1p x and their like are x to the last bit."""


def _plainly_reduced(x: values.Value) -> tuple[values.Value, values.Value]:
    """(n, r): x = n ln 2 + r, r rounded."""
    high_part, low_part = LN2_PARTS[x.type]
    n, whole = values.nearest(x, LOG2_E)
    return whole, values.fma(n, -low_part, values.fma(n, -high_part, x))


def reduced(
    x: values.Value, low: values.Value | None = None
) -> tuple[values.Value, values.Value, values.Value]:
    """(n, r, rest): x + low = n ln 2 + r + rest, n an i32."""
    high_part, low_part = LN2_PARTS[x.type]
    n, whole = values.nearest(x, LOG2_E)
    high = values.fma(n, -high_part, x)
    correction = n * -low_part if low is None else values.fma(n, -low_part, low)
    r = high + correction
    return whole, r, (high - r) + correction


def scaled(x: values.Value, n: values.Value) -> values.Value:
    """X times 2^n, in two steps so that results may be denormal or infinite."""
    half = n >> 1
    return x * values.power_of_two(half, x.type) * values.power_of_two(n - half, x.type)


def exp_of_sum(x: values.Value, low: values.Value) -> values.Value:
    """exp(x + low), |low| far below |x|, x within the bounds that exp has."""
    n, r, rest = reduced(x, low)
    near, error = values.exact_sum_ordered(x.constant(1), r)
    tail = values.fma(r * r, values.polynomial(r, EXP[x.type]), rest)
    return scaled(near + (error + tail), n)


def exp(x: values.Value) -> values.Value:
    """e^x."""
    n, r = _plainly_reduced(values.clamped(x, _BOTTOM[x.type], _TOP[x.type]))
    return scaled(1 + values.fma(r * r, values.polynomial(r, EXP[x.type]), r), n)


def precise_exp(x: values.Value) -> values.Value:
    """e^x with all digits of the reduced argument, within 0.6 ULP."""
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
    """The hyperbolic tangent; f32 has a formula of its own, a third faster and less exact."""
    return _tanh_f32(x) if x.type == "f32" else _tanh_f64(x)


def _tanh_f32(x: values.Value) -> values.Value:
    """tanh(n ln(2) / 2 + r), |r| <= ln(2) / 4, by the addition theorem: tanh r where n is 0."""
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
    """1 - 2 / (e^2x + 1), e^2x = 2^n 2^f; near 0 a polynomial. Subnormal numbers are zeros."""
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
