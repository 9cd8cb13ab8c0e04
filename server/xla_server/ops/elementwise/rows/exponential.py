"""Exponential functions, logarithms, powers and roots.

Semantics: XLA's CPU backend. Complex numbers get double precision and are rounded after.
"""

import numpy as np

from xla_contract.types.opcode import Opcode
from xla_server.ops.elementwise import elementwise_op as op
from xla_server.ops.numerics.complex_numbers import from_parts, undefined
from xla_server.ops.numerics.numeric import Array

EXPONENT_BITS = 6
"""Low bits of an exponent that count: only powers of 1 and -1 do not wrap beyond 63."""


def _rsqrt(x: Array) -> Array:
    """1 / sqrt(x)."""
    return np.asarray(np.reciprocal(np.sqrt(x)))


def _erf(x: Array) -> Array:
    """The error function."""
    # The server listens before scipy is loaded.
    from scipy import special

    return np.asarray(special.erf(x))


def _logistic(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return np.asarray(np.reciprocal(1 + np.exp(-x)))


def _power(x: Array, y: Array) -> Array:
    """x ** y as C's pow has it.

    numpy takes roots where an exponent of 0.5 is broadcast: those of -0 and -inf are others.
    """
    roots = y == 0.5
    if np.any(roots):
        x = np.where(roots, np.where(np.isneginf(x), -x, x) + x.dtype.type(0), x)
    return np.asarray(np.power(x, y))


def _integer_power(base: Array, exponent: Array) -> Array:
    """Base to the exponent, wrapping; negative exponents leave 0 except of 1 and -1.

    Only the low 6 bits of other exponents count. An exponent of an unsigned type with its highest
    bit set is read as the negative number with the same bits, and so is a base of all ones.
    """
    result, square = np.ones_like(base), base
    for position in range(EXPONENT_BITS):
        result = np.where((exponent >> position) & 1, result * square, result)
        square = square * square
    signed = np.dtype(f"i{base.dtype.itemsize}")
    base_bits, exponent_bits = (np.asarray(side).view(signed) for side in (base, exponent))
    sign = np.where(exponent_bits & 1, base, np.ones_like(base))
    reciprocal = np.where(np.abs(base_bits) == 1, sign, np.zeros_like(base))
    return np.where(exponent_bits < 0, reciprocal, result)


def _complex_exp(z: Array) -> Array:
    """e to the z, NaN where the angle is not finite."""
    return undefined(~np.isfinite(z.imag), np.exp(z))


def _complex_expm1(z: Array) -> Array:
    """exp(z) - 1; of real numbers a real one, too large or NaN as it may be."""
    result = np.expm1(z)
    return from_parts(result.real, np.where(z.imag == 0, z.imag, result.imag))


def _complex_log(z: Array) -> Array:
    """The natural logarithm, NaN where a part is NaN, even beside an infinite one."""
    return undefined(np.isnan(z), np.log(z))


def _complex_log_plus_one(z: Array) -> Array:
    """log(1 + z), exact near zero too."""
    wide = z.astype(np.clongdouble)
    size = np.hypot(1 + wide.real, wide.imag)
    near_one = np.abs(size - 1) < 0.5
    small = np.where(near_one, wide, 0)
    precise = np.log1p(small.real * (2 + small.real) + small.imag * small.imag) / 2
    real = np.where(near_one, precise, np.log(size))
    result = from_parts(real, np.arctan2(wide.imag, 1 + wide.real)).astype(np.complex128)
    return undefined(np.isnan(z), result)


def _complex_logistic(z: Array) -> Array:
    """1 / (1 + exp(-z)), written so that large arguments do not meet inf / inf.

    Near a pole, 1 + exp(-z) is made of terms that do not cancel.
    """
    exponent = np.where(z.real < 0, z, -z).astype(np.clongdouble)
    falling = _complex_exp(exponent)
    cosine, half = np.cos(exponent.imag), np.cos(exponent.imag / 2)
    near = 2 * half * half + cosine * np.expm1(exponent.real)
    below = from_parts(np.where(cosine < 0, near, 1 + falling.real), falling.imag)
    return np.asarray(np.where(z.real < 0, falling, 1) / below).astype(np.complex128)


def _complex_power(base: Array, exponent: Array) -> Array:
    """exp(exponent log(base)), the real power of 0 and infinity, and 1 of a base of 1."""
    result = _complex_exp(exponent * _complex_log(base))
    ordinary = np.isfinite(base) & (base != 0) & np.isfinite(exponent) & np.isfinite(result.real)
    wide = np.where(ordinary, base, 1).astype(np.clongdouble)
    precise = np.exp(np.where(ordinary, exponent, 1).astype(np.clongdouble) * np.log(wide))
    result = np.where(ordinary, precise.astype(np.complex128), result)
    result = undefined(base == 0, result)
    real = (base.imag == 0) & (base.real >= 0) & (exponent.imag == 0)
    real &= ((base == 0) & (exponent.real >= 0)) | (np.isinf(base) & ~np.isnan(exponent))
    result = np.where(real, np.power(np.abs(base.real), exponent.real), result)
    return np.where((base == 1) | (exponent == 0), 1, result)


def _complex_sqrt(z: Array) -> Array:
    """The root with a real part that is not negative; below a cut of -0 as below one of 0."""
    return undefined(np.isnan(z), np.sqrt(from_parts(z.real, z.imag + 0.0)))


def _complex_rsqrt(z: Array) -> Array:
    """1 / sqrt(z), by size and angle: 0 at infinity."""
    size, angle = np.reciprocal(np.sqrt(np.abs(z))), np.where(z == 0, 0, -np.angle(z) / 2)
    root = from_parts(size * np.cos(angle), size * np.sin(angle))
    return np.where(np.isinf(z), 0, root)


EXPONENTIAL: op.Rows = {
    Opcode.CBRT: op.function(np.cbrt, "cbrt", (1, 1)),
    Opcode.ERF: op.function(_erf, "erf", (2.75, 1.5)),
    Opcode.EXPONENTIAL: op.function(np.exp, "exp", (1.25, 1.25), complex=_complex_exp),
    Opcode.EXPONENTIAL_MINUS_ONE: op.identity_near_zero(
        np.expm1, "expm1", (1.25, 1.5), complex=_complex_expm1
    ),
    Opcode.LOG: op.function(np.log, "log", (1, 1), complex=_complex_log),
    Opcode.LOG_PLUS_ONE: op.function(
        np.log1p, "log1p", (1.25, 1.25), complex=_complex_log_plus_one
    ),
    Opcode.LOGISTIC: op.function(_logistic, "logistic", (2.5, 2.5), complex=_complex_logistic),
    Opcode.POWER: op.function(
        _power,
        "pow",
        (1.0, 1.5),
        op.CostClass.POWER,
        integer=_integer_power,
        complex=_complex_power,
        neutral=1,
    ),
    Opcode.RSQRT: op.function(
        _rsqrt, "rsqrt", (1.5, 1.5), op.CostClass.ROOT, complex=_complex_rsqrt
    ),
    Opcode.SQRT: op.ElementwiseOp(
        np.sqrt, "sqrt", op.CostClass.ROOT, complex=_complex_sqrt, widens_complex=True
    ),
}
"""The rows by opcode."""
