"""erf: x + x ERF_NEAR(x^2) near zero, one less erfc from there on.

erfc is exp(-ERF_FAR(|x| - 1)) for f64. For f32 it is the eighth power of a polynomial in |x|, which
takes half the instructions.
"""

from xla_server.codegen.functions import values
from xla_server.codegen.functions.real.coefficients import ERF_FAR, ERF_NEAR, ERFC_ROOT, EXP
from xla_server.codegen.functions.real.exponential import reduced

_FAR = {"f32": 1.05, "f64": 1.0}
"""Argument from which erf is computed from erfc."""

_ONE = {"f32": 3.96, "f64": 5.95}
"""Argument from which erf is 1."""


def erf(x: values.Value) -> values.Value:
    """The error function."""
    size, far = abs(x), _FAR[x.type]
    # The far formula of f32 has the longer chain of instructions: here only their number counts.
    evaluate = values.horner if x.type == "f32" else values.polynomial
    near = values.fma(x, evaluate(x * x, ERF_NEAR[x.type]), x)
    kept = values.select(size > _ONE[x.type], x.constant(_ONE[x.type]), size)
    beyond = _far_f32(kept) if x.type == "f32" else _far_f64(kept - far)
    return values.select(size > far, values.with_sign_bit(beyond, x), near)


def _far_f32(size: values.Value) -> values.Value:
    first, *others = ERFC_ROOT["f32"]
    root = values.fma(size, values.even_and_odd(size, others), first)
    square = root * root
    fourth = square * square
    return values.fma(-fourth, fourth, 1.0)


def _far_f64(distance: values.Value) -> values.Value:
    n, r, _ = reduced(-values.polynomial(distance, ERF_FAR["f64"]))
    scale = values.power_of_two(n, "f64")
    return 1 - values.fma(scale, values.fma(r * r, values.polynomial(r, EXP["f64"]), r), scale)


ERROR_FUNCTION = values.family(erf)
"""Every function of this module by its name in kernels."""
