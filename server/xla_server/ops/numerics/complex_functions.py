"""Elementwise functions of complex numbers where numpy has another meaning or none.

Semantics: XLA's CPU backend. All but division, extremes and magnitude get double precision and
are rounded after.
"""

from collections.abc import Callable

import numpy as np

from xla_server.ops.numerics.numeric import Array

_PI = 4 * np.arctan(np.longdouble(1))
"""pi in the precision that these functions compute in."""


def in_more_precision(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return the function computed in the C library's longest numbers and rounded once."""

    def rounded(z: Array) -> Array:
        return function(z.astype(np.clongdouble)).astype(np.complex128)

    return rounded


def logistic(z: Array) -> Array:
    """1 / (1 + exp(-z)), written so that large arguments do not meet inf / inf.

    Near a pole, 1 + exp(-z) is made of terms that do not cancel.
    """
    exponent = np.where(z.real < 0, z, -z).astype(np.clongdouble)
    falling = exp(exponent)
    cosine, half = np.cos(exponent.imag), np.cos(exponent.imag / 2)
    near = 2 * half * half + cosine * np.expm1(exponent.real)
    below = from_parts(np.where(cosine < 0, near, 1 + falling.real), falling.imag)
    return np.asarray(np.where(z.real < 0, falling, 1) / below).astype(np.complex128)


def abs(z: Array) -> Array:
    """|z|, NaN where a part is NaN, even beside an infinite one."""
    return np.where(np.isnan(z.real) | np.isnan(z.imag), np.nan, np.abs(z)).astype(z.real.dtype)


def maximum(x: Array, y: Array) -> Array:
    """The one with the larger real part: x of equal ones, y beside a real part of NaN."""
    return np.where(x.real >= y.real, x, y)


def minimum(x: Array, y: Array) -> Array:
    """The one with the smaller real part: x of equal ones, y beside a real part of NaN."""
    return np.where(x.real <= y.real, x, y)


def divide(x: Array, y: Array) -> Array:
    """x / y, where infinite numbers are as in C's Annex G: by zero infinite, by infinite zero."""
    quotient = np.divide(x, y)
    infinite = np.copysign(np.inf, y.real).astype(y.real.dtype)
    by_zero = (y == 0) & ~(np.isnan(x.real) & np.isnan(x.imag))
    undefined = np.isnan(quotient.real) & np.isnan(quotient.imag) & ~by_zero
    quotient = np.where(by_zero, from_parts(infinite * x.real, infinite * x.imag), quotient)
    too_large = undefined & np.isinf(x) & np.isfinite(y)
    quotient = np.where(too_large, _in_direction(np.inf, _ends(x), y), quotient)
    too_small = undefined & np.isinf(y) & np.isfinite(x)
    return np.where(too_small, _in_direction(0, x, _ends(y)), quotient)


def sign(z: Array) -> Array:
    """z / |z|, and zero at zero."""
    size = np.abs(z)
    return np.where(z == 0, z, from_parts(z.real / size, z.imag / size))


def sqrt(z: Array) -> Array:
    """The root with a real part that is not negative; below a cut of -0 as below one of 0."""
    return _undefined(np.isnan(z), np.sqrt(from_parts(z.real, z.imag + 0.0)))


def rsqrt(z: Array) -> Array:
    """1 / sqrt(z), by size and angle: 0 at infinity."""
    size, angle = np.reciprocal(np.sqrt(np.abs(z))), np.where(z == 0, 0, -np.angle(z) / 2)
    root = from_parts(size * np.cos(angle), size * np.sin(angle))
    return np.where(np.isinf(z), 0, root)


def exp(z: Array) -> Array:
    """e to the z, NaN where the angle is not finite."""
    return _undefined(~np.isfinite(z.imag), np.exp(z))


def log(z: Array) -> Array:
    """The natural logarithm, NaN where a part is NaN, even beside an infinite one."""
    return _undefined(np.isnan(z), np.log(z))


def cos(z: Array) -> Array:
    """The cosine by its parts, so that 0 times infinity is NaN."""
    return from_parts(np.cos(z.real) * np.cosh(z.imag), -np.sin(z.real) * np.sinh(z.imag))


def sin(z: Array) -> Array:
    """The sine by its parts, so that 0 times infinity is NaN."""
    return from_parts(np.sin(z.real) * np.cosh(z.imag), np.cos(z.real) * np.sinh(z.imag))


def tan(z: Array) -> Array:
    """The tangent, NaN where the real part is not finite and the imaginary one decides nothing."""
    result = in_more_precision(np.tan)(z)
    return _undefined(~np.isfinite(z.real) & ~np.isinf(z.imag), result)


def tanh(z: Array) -> Array:
    """The hyperbolic tangent, NaN where the imaginary part is not finite and the real one small."""
    result = in_more_precision(np.tanh)(z)
    return _undefined(~np.isfinite(z.imag) & ~np.isinf(z.real), result)


def expm1(z: Array) -> Array:
    """exp(z) - 1; of real numbers a real one, too large or NaN as it may be."""
    result = np.expm1(z)
    return from_parts(result.real, np.where(z.imag == 0, z.imag, result.imag))


def log_plus_one(z: Array) -> Array:
    """log(1 + z), exact near zero too."""
    wide = z.astype(np.clongdouble)
    size = np.hypot(1 + wide.real, wide.imag)
    near_one = np.abs(size - 1) < 0.5
    small = np.where(near_one, wide, 0)
    precise = np.log1p(small.real * (2 + small.real) + small.imag * small.imag) / 2
    real = np.where(near_one, precise, np.log(size))
    result = _wide(real, np.arctan2(wide.imag, 1 + wide.real)).astype(np.complex128)
    return _undefined(np.isnan(z), result)


def power(base: Array, exponent: Array) -> Array:
    """exp(exponent log(base)), the real power of 0 and infinity, and 1 of a base of 1."""
    result = exp(exponent * log(base))
    ordinary = np.isfinite(base) & (base != 0) & np.isfinite(exponent) & np.isfinite(result.real)
    wide = np.where(ordinary, base, 1).astype(np.clongdouble)
    precise = np.exp(np.where(ordinary, exponent, 1).astype(np.clongdouble) * np.log(wide))
    result = np.where(ordinary, precise.astype(np.complex128), result)
    result = _undefined(base == 0, result)
    real = (base.imag == 0) & (base.real >= 0) & (exponent.imag == 0)
    real &= ((base == 0) & (exponent.real >= 0)) | (np.isinf(base) & ~np.isnan(exponent))
    result = np.where(real, np.power(np.abs(base.real), exponent.real), result)
    return np.where((base == 1) | (exponent == 0), 1, result)


def atan2(y: Array, x: Array) -> Array:
    """-i log((x + i y) / sqrt(x x + y y)), the real function continued.

    The formula has the special values. Finite results are half the angle between u = x + i y and
    v = x - i y, half of log |v| / |u|, and the half turn that the formula has beside those.
    """
    y, x = y.astype(np.clongdouble), x.astype(np.clongdouble)
    u, v = x + 1j * y, x - 1j * y
    squares = x * x + y * y
    formula = np.asarray(-1j * np.log(u / np.sqrt(squares)))
    (a, b), (c, d) = (x.real, x.imag), (y.real, y.imag)
    turned = _sum_of_products((a, d), (-b, c))
    along = _sum_of_products((a, a), (b, b), (-c, c), (-d, d))
    angle = np.arctan2(2 * _sum_of_products((a, c), (b, d)), along) / 2
    smaller = np.minimum(*(z.real * z.real + z.imag * z.imag for z in (u, v)))
    size = np.copysign(np.log1p(4 * np.abs(turned) / smaller) / 4, turned)
    # Both angles of the formula have a cut, where its own rounding would choose the side.
    across = _with_sign_of_zero(2 * _sum_of_products((a, b), (c, d)), squares.imag)
    of_squares = np.arctan2(across, _sum_of_products((a, a), (-b, b), (c, c), (-d, d)))
    direction = np.arctan2(u.imag, u.real) - of_squares / 2
    distance = np.abs(direction - angle)
    beyond = (distance > _PI / 2) & (distance < 3 * _PI / 2)
    back = np.where(angle == 0, direction, -angle)
    angle = np.where(beyond, angle + np.copysign(_PI, back), angle)
    precise = _wide(_with_sign_of_zero(angle, formula.real), _with_sign_of_zero(size, formula.imag))
    return np.asarray(np.where(np.isfinite(formula), precise, formula).astype(np.complex128))


def _with_sign_of_zero(part: Array, signed: Array) -> Array:
    """Return parts that have the other ones' signs where they are zero."""
    return np.where(part == 0, np.copysign(part, signed), part)


def _sum_of_products(*pairs: tuple[Array, Array]) -> Array:
    """Return a sum of products of doubles, in 80 bits, as if it were made in twice the digits."""
    total = low = np.zeros((), np.longdouble)
    for x, y in pairs:
        for part in (a * b for a in _halves(x) for b in _halves(y)):
            before, total = total, total + part
            added = total - before
            low = low + ((before - (total - added)) + (part - added))
    return np.asarray(total + low)


def _halves(x: Array) -> tuple[Array, Array]:
    """Return two numbers of 32 bits whose sum is x, so that products of them are exact."""
    wide = x * np.longdouble(2**32 + 1)
    high = wide - (wide - x)
    return high, x - high


def _wide(real: Array, imaginary: Array) -> Array:
    result = np.empty(np.shape(real), np.clongdouble)
    result.real, result.imag = real, imaginary
    return result


def from_parts(real: Array, imaginary: Array) -> Array:
    """Complex numbers of these parts; infinities stay in their part."""
    result = np.empty(np.shape(real), np.result_type(real, np.complex64))
    result.real, result.imag = real, imaginary
    return result


def _undefined(where: Array, result: Array) -> Array:
    return np.where(where, complex(np.nan, np.nan), result)


def _ends(z: Array) -> Array:
    """Replace infinite parts by 1 and other parts by 0, keeping signs."""
    real, imaginary = (np.copysign(np.isinf(part), part) for part in (z.real, z.imag))
    return from_parts(real.astype(z.real.dtype), imaginary.astype(z.real.dtype))


def _in_direction(size: float, x: Array, y: Array) -> Array:
    """Numbers of this size in the direction of x / y."""
    factor = x.real.dtype.type(size)
    a, b, c, d = x.real, x.imag, y.real, y.imag
    return from_parts(factor * (a * c + b * d), factor * (b * c - a * d))
