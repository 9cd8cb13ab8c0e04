"""erf of f32: (x + x ERF_RATIO(x^2)) / 4. The ratio is near zero where erf is near 1.

erf of f64: x + x ERF_NEAR(x^2) near zero, one less erfc = exp(-ERF_FAR(|x| - 1)) from there on.
"""

from xla_server.codegen.functions import values
from xla_server.codegen.functions.real.exponential import EXP, reduced
from xla_server.codegen.functions.values import Coefficients

ERF_RATIO: Coefficients = {
    "f32": (
        5.495140075683594, 0.39883264899253845, 0.15143470466136932, -2.065753869828768e-05,
        -1.7751559425960295e-05, -4.7107394493650645e-05, 1.5640000104904175, 0.7832254767417908,
        0.1775732934474945, 0.02324318140745163, 0.0018024728633463383, 6.013884922140278e-05,
    ),
}  # fmt: skip
"""4 erf(r) / r - 1 in z = r^2, |r| <= 3.88, dividend and divisor; error relative to erf.

Error before rounding: f32 2^-25.9.
"""

ERF_NEAR: Coefficients = {
    "f64": (
        0.12837916709551256, -0.3761263890318352, 0.11283791670944185, -0.026866170643111472,
        0.0052239776061185845, -0.0008548325929322255, 0.00012055293577183465,
        -1.4924712308155674e-05, 1.6447131653817615e-06, -1.6206314430940447e-07,
        1.3710983445964604e-08, -7.779474387674627e-10,
    ),
}  # fmt: skip
"""erf(r) / r - 1 in z = r^2, |r| <= 1; error relative to erf.

Error before rounding: f64 2^-56.9.
"""

ERF_FAR: Coefficients = {
    "f64": (
        1.8496055099332482, 2.6389675142347757, 0.8431072563594129, 0.04156109802507628,
        -0.010033825179091535, 0.0019779012156957505, -0.00023731643466030444,
        -2.6296326545686653e-05, 2.7198971137324165e-05, -9.67137434797216e-06,
        2.1319371261625576e-06, -2.048100918693437e-07, -5.801244450758754e-08,
        3.3391522890138095e-08, -8.518825180213627e-09, 1.3191091382140952e-09,
        -1.1932620607267395e-10, 4.865020761958631e-12,
    ),
}  # fmt: skip
"""-ln(erfc(t + 1)), 0 <= t <= 4.95; error relative to erf.

Error before rounding: f64 2^-57.1.
"""

_FAR = 1.0
"""Argument from which erf of f64 is computed from erfc."""

_ONE = {"f32": 3.88, "f64": 5.95}
"""Argument from which erf is 1."""


def erf(x: values.Value) -> values.Value:
    """The error function."""
    return _erf_f32(x) if x.type == "f32" else _erf_f64(x)


def _erf_f32(x: values.Value) -> values.Value:
    kept = values.clamped(x, -_ONE["f32"], _ONE["f32"])
    z, both = kept * kept, ERF_RATIO["f32"]
    half = len(both) // 2
    # Throughput counts here, not latency: Horner's rule has the fewest instructions.
    ratio = values.horner(z, both[:half]) / values.horner(z, both[half:])
    # The sum is divided, not x: a quarter of the smallest x would be subnormal.
    return values.fma(kept, ratio, kept) * 0.25


def _erf_f64(x: values.Value) -> values.Value:
    size = abs(x)
    near = values.fma(x, values.polynomial(x * x, ERF_NEAR["f64"]), x)
    kept = values.select(size > _ONE["f64"], x.constant(_ONE["f64"]), size)
    n, r, _ = reduced(-values.polynomial(kept - _FAR, ERF_FAR["f64"]))
    scale = values.power_of_two(n, "f64")
    erfc = values.fma(scale, values.fma(r * r, values.polynomial(r, EXP["f64"]), r), scale)
    return values.select(size > _FAR, values.with_sign_bit(1 - erfc, x), near)


FORMULAS = values.family(erf)
"""Every function of this module by its name in kernels."""
