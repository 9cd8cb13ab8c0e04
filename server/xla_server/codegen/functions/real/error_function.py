"""erf of f32: (x + x ERF_RATIO(x^2)) / 4. The ratio is near zero where erf is near 1.

erf of f64: x + x ERF_NEAR(x^2) near zero, one less erfc = exp(-ERF_FAR(|x| - 1)) from there on.
"""

from xla_server.codegen.functions import values
from xla_server.codegen.functions.real.coefficients import ERF_FAR, ERF_NEAR, ERF_RATIO, EXP
from xla_server.codegen.functions.real.exponential import reduced

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
    # Only the number of instructions counts here, not how long they take one after another.
    ratio = values.horner(z, both[:half]) / values.horner(z, both[half:])
    # A quarter of the sum, as a quarter of x is subnormal for the smallest x.
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
