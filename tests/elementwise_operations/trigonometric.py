"""Trigonometric and hyperbolic functions and their inverses."""

from collections.abc import Mapping
from decimal import Decimal

import numpy as np

from tests.elementwise_operations.operation import WAVES, Array, Operation, Ulps, both
from tests.ulps.exact_sums import from_parts, sum_of_products
from tests.ulps.fits.fitting import Fit, series
from xla_contract.types.opcode import Opcode


def _complex_atan2(y: Array, x: Array) -> Array:
    """Half the angle of u = x + iy less that of v = x - iy, and half of log |v| / |u|."""
    u, v = x + 1j * y, x - 1j * y
    across = sum_of_products((x.real, y.real), (x.imag, y.imag))
    turned = sum_of_products((x.real, y.imag), (-x.imag, y.real))
    along = sum_of_products(
        (x.real, x.real), (x.imag, x.imag), (-y.real, y.real), (-y.imag, y.imag)
    )
    angle = np.arctan2(2 * across, along) / 2
    # The half turn is that of u / sqrt(uv).
    half = np.arctan2(np.longdouble(0), np.longdouble(-1))
    squares = sum_of_products(
        (x.real, x.real), (-x.imag, x.imag), (y.real, y.real), (-y.imag, y.imag)
    )
    twisted = sum_of_products((x.real, x.imag), (y.real, y.imag))
    direction = np.arctan2(u.imag, u.real) - np.arctan2(2 * twisted, squares) / 2
    turned_back = np.where(angle == 0, direction, -angle)
    is_turned = np.round((direction - angle) / half) % 2 == 1
    angle = np.where(is_turned, angle + np.copysign(half, turned_back), angle)
    smaller = np.minimum(*(z.real * z.real + z.imag * z.imag for z in (u, v)))
    return from_parts(angle, np.copysign(np.log1p(4 * np.abs(turned) / smaller) / 4, turned))


def _exp2_tail(f: Decimal) -> Decimal:
    """(2^f - 1) / f."""
    logarithm = Decimal(2).ln()
    return series(logarithm, lambda k: f * logarithm / (k + 1))


def _tanh_tail(z: Decimal) -> Decimal:
    """(tanh(r) - r) / r^3, z = r^2."""
    if not z:
        return -Decimal(1) / 3
    r = z.sqrt()
    square = (2 * r).exp()
    return ((square - 1) / (square + 1) - r) / (r * z)


def _sinh_tail(z: Decimal) -> Decimal:
    """(sinh(r) - r) / r^3, z = r^2."""
    return series(Decimal(1) / 6, lambda k: z / ((2 * k + 2) * (2 * k + 3)))


def _sin_tail(z: Decimal) -> Decimal:
    """(sin(r) - r) / r^3, z = r^2."""
    return series(-Decimal(1) / 6, lambda k: -z / ((2 * k + 2) * (2 * k + 3)))


def _cos_tail(z: Decimal) -> Decimal:
    """(cos(r) - 1 + z / 2) / z^2, z = r^2."""
    return series(Decimal(1) / 24, lambda k: -z / ((2 * k + 3) * (2 * k + 4)))


def _asin_tail(z: Decimal) -> Decimal:
    """(asin(r) - r) / r^3, z = r^2."""
    return series(
        Decimal(1) / 6,
        lambda k: z * (2 * k + 1) ** 2 / ((2 * k + 2) * (2 * k + 3)),
    )


def _atan_tail(z: Decimal) -> Decimal:
    """(atan(r) - r) / r^3, z = r^2."""
    return sum((-((-z) ** k if k else Decimal(1)) / (2 * k + 3) for k in range(90)), Decimal(0))


OPERATIONS: Mapping[Opcode, Operation] = {
    Opcode.ACOS: both("Acos", WAVES, Ulps(1, 1, 1, 4, 4, 16, 16), np.arccos, math_h=True),
    Opcode.ACOSH: both("Acosh", WAVES, Ulps(1, 2, 2, 4, 4, 16, 16), np.arccosh, math_h=True),
    Opcode.ASIN: both("Asin", WAVES, Ulps(1, 1, 1, 4, 4, 16, 16), np.arcsin, math_h=True),
    Opcode.ASINH: both("Asinh", WAVES, Ulps(1, 1, 1, 4, 4, 16, 16), np.arcsinh, math_h=True),
    Opcode.ATAN: both("Atan", WAVES, Ulps(1, 1, 1, 4, 2, 16, 16), np.arctan, math_h=True),
    Opcode.ATAN2: Operation(
        "Atan2", WAVES, Ulps(1, 1, 1, 4, 2, 64, 64), real=np.arctan2, complex=_complex_atan2
    ),
    Opcode.ATANH: both("Atanh", WAVES, Ulps(1, 1, 1, 4, 256, 16, 16), np.arctanh, math_h=True),
    # JAX writes cosh and sinh with exp(x + log(1/2)), which loses what x has before the point.
    Opcode.COSH: both("Cosh", WAVES, Ulps(1, 2, 1, 64, 1024, 64, 64), np.cosh, math_h=True),
    Opcode.COSINE: both("Cos", WAVES, Ulps(1, 1, 1, 2, 2, 4, 4), np.cos),
    Opcode.SINE: both("Sin", WAVES, Ulps(1, 1, 1, 2, 2, 4, 4), np.sin),
    Opcode.SINH: both("Sinh", WAVES, Ulps(1, 2, 1, 64, 1024, 64, 64), np.sinh, math_h=True),
    Opcode.TAN: both("Tan", WAVES, Ulps(1, 1, 1, 4, 2, 512, 512), np.tan),
    Opcode.TANH: both("Tanh", WAVES, Ulps(1, 1, 1, 8, 8, 512, 512), np.tanh),
}
"""The rows by opcode."""

FITS = (
    Fit(
        "TANH",
        "(tanh(r) - r) / r^3 in z = r^2, |r| <= 0.1734 for f32 or 0.5494 for f64; relative.",
        _tanh_tail,
        lambda z: z,
        0.0005,
        (0.0301, 0.3019),
        (3, 11),
    ),
    Fit(
        "EXP2_OF_TANH",
        "(2^f - 1) / f, |f| <= 1 / 2, for tanh; error relative to 1.",
        _exp2_tail,
        abs,
        -0.501,
        0.501,
        (0, 11),
    ),
    Fit(
        "SINH",
        "(sinh(r) - r) / r^3 in z = r^2, |r| <= 1; relative.",
        _sinh_tail,
        lambda z: z,
        0.0,
        1.0,
        (4, 7),
    ),
    Fit(
        "SIN",
        "(sin(r) - r) / r^3 in z = r^2, |r| <= pi / 4; relative.",
        _sin_tail,
        lambda z: z,
        0.0,
        0.6170,
        (3, 6),
    ),
    Fit(
        "COS",
        "(cos(r) - 1 + z / 2) / z^2 in z = r^2, |r| <= pi / 4.",
        _cos_tail,
        lambda z: z * z,
        0.0,
        0.6170,
        (3, 6),
    ),
    Fit(
        "ASIN",
        "(asin(r) - r) / r^3 in z = r^2, |r| <= 1 / 2; relative.",
        _asin_tail,
        lambda z: z,
        0.0,
        0.25,
        (6, 12),
    ),
    Fit(
        "ATAN",
        "(atan(r) - r) / r^3 in z = r^2, |r| <= tan(pi / 8); relative.",
        _atan_tail,
        lambda z: z,
        0.0,
        0.1717,
        (5, 11),
    ),
)
"""The polynomials of their kernel functions."""
