"""Arithmetic, extremes, signs, whole numbers and the parts of complex ones.

Semantics: XLA's CPU backend. Integers have no traps: overflow wraps, x / 0 is -1 (all bits set)
and x % 0 is x.
"""

import numpy as np

from xla_contract.types.opcode import Opcode
from xla_server.ops.elementwise import elementwise_op as op
from xla_server.ops.numerics.complex_numbers import from_parts
from xla_server.ops.numerics.numeric import Array, flushed


def _sign(x: Array) -> Array:
    """-1, 1, or x itself where it is a zero or NaN."""
    return np.where((x == 0) | np.isnan(x), x, np.sign(x))


def _maximum(x: Array, y: Array) -> Array:
    """The larger of each pair, where NaN beats all and 0 beats -0."""
    return np.where((x == 0) & (y == 0), x + y, np.maximum(x, y))


def _minimum(x: Array, y: Array) -> Array:
    """The smaller of each pair, where NaN beats all and -0 beats 0."""
    return np.where((x == 0) & (y == 0), -(-x - y), np.minimum(x, y))


def _round_away(x: Array) -> Array:
    """Round to the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x).astype(x.dtype), whole)


def _remainder(x: Array, y: Array) -> Array:
    """C's fmod; NaN where y is subnormal, as a comparison with zero takes it for that."""
    return np.asarray(np.fmod(x, flushed(y)))


def _integer_divide(x: Array, y: Array) -> Array:
    """Division towards zero; by zero -1, and the smallest number by -1 is itself."""
    quotient = x // np.where(_undividable(x, y), np.ones_like(y), y)
    exact = quotient * y == x
    towards_zero = quotient + ((x < 0) != (y < 0)) * ~exact
    minus_one = np.full_like(x, -1 if x.dtype.kind == "i" else np.iinfo(x.dtype).max)
    defined = np.where(_undividable(x, y), x, towards_zero.astype(x.dtype))
    return np.where(y == 0, minus_one, defined)


def _integer_remainder(x: Array, y: Array) -> Array:
    """Remainder of division towards zero, with the sign of x; x % 0 is x."""
    rest = np.fmod(x, np.where(_undividable(x, y), np.ones_like(y), y))
    return np.where(y == 0, x, rest)


def _undividable(x: Array, y: Array) -> Array:
    overflows = (x == np.iinfo(x.dtype).min) & (y == -1) if x.dtype.kind == "i" else False
    return np.asarray((y == 0) | overflows)


def _complex_abs(z: Array) -> Array:
    """|z|, NaN where a part is NaN, even beside an infinite one."""
    return np.where(np.isnan(z.real) | np.isnan(z.imag), np.nan, np.abs(z)).astype(z.real.dtype)


def _complex_maximum(x: Array, y: Array) -> Array:
    """The one with the larger real part: x of equal ones, y beside a real part of NaN."""
    return np.where(x.real >= y.real, x, y)


def _complex_minimum(x: Array, y: Array) -> Array:
    """The one with the smaller real part: x of equal ones, y beside a real part of NaN."""
    return np.where(x.real <= y.real, x, y)


def _complex_divide(x: Array, y: Array) -> Array:
    """x / y, where infinite numbers are as in C's Annex G: by zero infinite, by infinite zero."""
    # The reciprocal of a larger number, by which numpy multiplies, is subnormal.
    is_large = np.maximum(np.abs(y.real), np.abs(y.imag)) > np.finfo(y.dtype).max / 16
    scale = np.where(is_large, 1 / 16, 1).astype(y.real.dtype)
    quotient = np.divide(*(from_parts(z.real * scale, z.imag * scale) for z in (x, y)))
    infinite = np.copysign(np.inf, y.real).astype(y.real.dtype)
    by_zero = (y == 0) & ~(np.isnan(x.real) & np.isnan(x.imag))
    undefined = np.isnan(quotient.real) & np.isnan(quotient.imag) & ~by_zero
    quotient = np.where(by_zero, from_parts(infinite * x.real, infinite * x.imag), quotient)
    too_large = undefined & np.isinf(x) & np.isfinite(y)
    quotient = np.where(too_large, _in_direction(np.inf, _ends(x), y), quotient)
    too_small = undefined & np.isinf(y) & np.isfinite(x)
    return np.where(too_small, _in_direction(0, x, _ends(y)), quotient)


def _complex_sign(z: Array) -> Array:
    """z / |z|, and zero at zero."""
    size = np.abs(z)
    return np.where(z == 0, z, from_parts(z.real / size, z.imag / size))


def _ends(z: Array) -> Array:
    """Replace infinite parts by 1 and other parts by 0, keeping signs."""
    real, imaginary = (np.copysign(np.isinf(part), part) for part in (z.real, z.imag))
    return from_parts(real.astype(z.real.dtype), imaginary.astype(z.real.dtype))


def _in_direction(size: float, x: Array, y: Array) -> Array:
    """Numbers of this size in the direction of x / y."""
    factor = x.real.dtype.type(size)
    a, b, c, d = x.real, x.imag, y.real, y.imag
    return from_parts(factor * (a * c + b * d), factor * (b * c - a * d))


ARITHMETIC: op.Rows = {
    Opcode.ABS: op.exact(np.abs, "absolute", complex=_complex_abs, keeps_subnormals=True),
    Opcode.ADD: op.ElementwiseOp(np.add, "add", pred="bit_or", neutral=-0.0, workspace=0),
    Opcode.CEIL: op.exact(np.ceil, "ceil"),
    Opcode.CLAMP: op.exact(
        lambda low, x, high: np.minimum(np.maximum(x, low), high),
        "clamp",
        floating=lambda low, x, high: _minimum(_maximum(x, low), high),
        workspace=4,
    ),
    Opcode.COMPLEX: op.part(from_parts, "complex"),
    Opcode.DIVIDE: op.ElementwiseOp(
        np.divide,
        "div",
        op.CostClass.DIVISION,
        integer=_integer_divide,
        complex=_complex_divide,
        widens_complex=True,
        has_c64=True,
        neutral=1,
        workspace=0,
    ),
    Opcode.FLOOR: op.exact(np.floor, "floor"),
    Opcode.IMAG: op.part(np.imag, "imag"),
    Opcode.IS_FINITE: op.exact(np.isfinite, "is_finite", keeps_subnormals=True),
    Opcode.MAXIMUM: op.exact(
        np.maximum,
        "maximum",
        floating=_maximum,
        complex=_complex_maximum,
        neutral=-np.inf,
        workspace=3,
    ),
    Opcode.MINIMUM: op.exact(
        np.minimum,
        "minimum",
        floating=_minimum,
        complex=_complex_minimum,
        neutral=np.inf,
        workspace=3,
    ),
    Opcode.MULTIPLY: op.ElementwiseOp(np.multiply, "mul", pred="bit_and", neutral=1, workspace=0),
    Opcode.NEGATE: op.exact(np.negative, "neg", keeps_subnormals=True),
    Opcode.REAL: op.part(np.real, "real"),
    Opcode.REMAINDER: op.ElementwiseOp(
        _remainder,
        "rem",
        op.CostClass.DIVISION,
        integer=_integer_remainder,
        keeps_subnormals=True,
    ),
    Opcode.ROUND_NEAREST_AFZ: op.exact(_round_away, "round_away", workspace=3),
    Opcode.ROUND_NEAREST_EVEN: op.exact(np.rint, "round_even"),
    Opcode.SIGN: op.function(
        _sign,
        "sign",
        (0, 0),
        op.CostClass.ARITHMETIC,
        integer=np.sign,
        complex=_complex_sign,
        is_exact=True,
        workspace=2,
    ),
    Opcode.SUBTRACT: op.ElementwiseOp(np.subtract, "sub", neutral=0, workspace=0),
}
"""The rows by opcode."""
