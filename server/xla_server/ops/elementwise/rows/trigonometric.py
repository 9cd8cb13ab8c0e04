"""Trigonometric and hyperbolic functions and their inverses.

Semantics: XLA's CPU backend. Complex numbers get double precision and are rounded after.
"""

import numpy as np

from xla_contract.types.opcode import Opcode
from xla_server.ops.elementwise import elementwise_op as op
from xla_server.ops.numerics.complex_numbers import from_parts, precise, undefined
from xla_server.ops.numerics.numeric import Array

_PI = 4 * np.arctan(np.longdouble(1))
"""pi in the precision that atan2 computes in."""


def _complex_cos(z: Array) -> Array:
    """The cosine by its parts, so that 0 times infinity is NaN."""
    return from_parts(np.cos(z.real) * np.cosh(z.imag), -np.sin(z.real) * np.sinh(z.imag))


def _complex_sin(z: Array) -> Array:
    """The sine by its parts, so that 0 times infinity is NaN."""
    return from_parts(np.sin(z.real) * np.cosh(z.imag), np.cos(z.real) * np.sinh(z.imag))


def _complex_tan(z: Array) -> Array:
    """The tangent, NaN where the real part is not finite and the imaginary one decides nothing."""
    result = precise(np.tan)(z)
    return undefined(~np.isfinite(z.real) & ~np.isinf(z.imag), result)


def _complex_tanh(z: Array) -> Array:
    """The hyperbolic tangent, NaN where the imaginary part is not finite and the real one small."""
    result = precise(np.tanh)(z)
    return undefined(~np.isfinite(z.imag) & ~np.isinf(z.real), result)


def _complex_atan2(y: Array, x: Array) -> Array:
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
    precise = from_parts(
        _with_sign_of_zero(angle, formula.real), _with_sign_of_zero(size, formula.imag)
    )
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


TRIGONOMETRIC: op.Rows = {
    Opcode.ACOS: op.function(np.arccos, "acos", (1, 1), complex=precise(np.arccos)),
    Opcode.ACOSH: op.function(np.arccosh, "acosh", (1.5, 1.5), complex=precise(np.arccosh)),
    Opcode.ASIN: op.identity_near_zero(np.arcsin, "asin", (1, 1), complex=precise(np.arcsin)),
    Opcode.ASINH: op.identity_near_zero(
        np.arcsinh, "asinh", (1.5, 1.5), complex=precise(np.arcsinh)
    ),
    Opcode.ATAN: op.identity_near_zero(np.arctan, "atan", (1, 1), complex=precise(np.arctan)),
    Opcode.ATAN2: op.function(np.arctan2, "atan2", (1.5, 1.5), complex=_complex_atan2),
    Opcode.ATANH: op.identity_near_zero(
        np.arctanh, "atanh", (1.5, 1.5), complex=precise(np.arctanh)
    ),
    Opcode.COSH: op.function(np.cosh, "cosh", (1.75, 1.75)),
    Opcode.COSINE: op.function(np.cos, "cos", (1, 1), complex=_complex_cos),
    Opcode.SINE: op.identity_near_zero(np.sin, "sin", (1, 1), complex=_complex_sin),
    Opcode.SINH: op.identity_near_zero(np.sinh, "sinh", (1.75, 1.75)),
    Opcode.TAN: op.identity_near_zero(np.tan, "tan", (1.5, 1.5), complex=_complex_tan),
    Opcode.TANH: op.identity_near_zero(np.tanh, "tanh", (2.5, 1.5), complex=_complex_tanh),
}
"""The rows by opcode."""
