"""Exact functions of complex numbers where numpy has none: in 80 bits, and in sums of two such."""

from typing import Any

import numpy as np

Array = Any
WIDE = np.clongdouble


def _log_parts(z: Array) -> tuple[Array, Array, Array]:
    """(real, rest, angle): the logarithm, its real part as a sum of two numbers."""
    x, y = np.abs(z.real), np.abs(z.imag)
    large, small = np.maximum(x, y), np.minimum(x, y)
    scale = np.exp2(np.floor(np.log2(np.where(large > 0, large, 1))))
    near = (large > 0.5) & (large < 2)
    scale = np.where(near, 1, scale)
    a, b = large / scale, small / scale
    # |z|^2 - 1 = (a - 1)(a + 1) + b^2, each product as a sum of two.
    first, first_low = _product(a - 1, a + 1)
    second, second_low = _product(b, b)
    total, low = _sum(first, second)
    square = total + (low + first_low + second_low)
    real = np.log1p(square) / 2
    count = np.log2(scale)
    ln2 = np.log(np.longdouble(2))
    high, rest = _sum(count * ln2, real)
    return high, rest, np.arctan2(z.imag, z.real)


def _sum(x: Array, y: Array) -> tuple[Array, Array]:
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def _product(x: Array, y: Array) -> tuple[Array, Array]:
    product = x * y
    halves = []
    for number in (x, y):
        wide = number * (2.0**32 + 1)
        high = wide - (wide - number)
        halves.append((high, number - high))
    (a, b), (c, d) = halves
    return product, ((a * c - product) + a * d + b * c) + b * d


def log(z: Array) -> Array:
    high, rest, angle = _log_parts(z)
    return _complex(high + rest, angle)


def _complex(real: Array, imag: Array) -> Array:
    result = np.empty(np.shape(real), WIDE)
    result.real, result.imag = real, imag
    return result


def power(base: Array, exponent: Array) -> Array:
    high, rest, angle = _log_parts(base)
    c, d = exponent.real, exponent.imag
    parts = []
    for (p, q), (r, s) in (((c, high), (-d, angle)), ((d, high), (c, angle))):
        first, first_low = _product(p, q)
        second, second_low = _product(r, s)
        total, low = _sum(first, second)
        parts.append((total, low + first_low + second_low + p * (rest if q is high else 0)))
    (size, size_low), (turn, turn_low) = parts
    size_factor = np.exp(size) * (1 + size_low)
    cosine, sine = np.cos(turn), np.sin(turn)
    return _complex(
        size_factor * (cosine - sine * turn_low), size_factor * (sine + cosine * turn_low)
    )


def atan2(y: Array, x: Array) -> Array:
    """Half the angle of u = x + iy less that of v = x - iy, and half of log |v| / |u|."""
    u, v = x + 1j * y, x - 1j * y
    across = _products((x.real, y.real), (x.imag, y.imag))
    turned = _products((x.real, y.imag), (-x.imag, y.real))
    along = _products((x.real, x.real), (x.imag, x.imag), (-y.real, y.real), (-y.imag, y.imag))
    angle = np.arctan2(2 * across, along) / 2
    # The half turn is that of u / sqrt(uv).
    half = np.arctan2(np.longdouble(0), np.longdouble(-1))
    squares = _products((x.real, x.real), (-x.imag, x.imag), (y.real, y.real), (-y.imag, y.imag))
    twisted = _products((x.real, x.imag), (y.real, y.imag))
    direction = np.arctan2(u.imag, u.real) - np.arctan2(2 * twisted, squares) / 2
    turned_back = np.where(angle == 0, direction, -angle)
    is_turned = np.round((direction - angle) / half) % 2 == 1
    angle = np.where(is_turned, angle + np.copysign(half, turned_back), angle)
    smaller = np.minimum(*(z.real * z.real + z.imag * z.imag for z in (u, v)))
    return _complex(angle, np.copysign(np.log1p(4 * np.abs(turned) / smaller) / 4, turned))


def _products(*pairs: tuple[Array, Array]) -> Array:
    total, low = np.longdouble(0), np.longdouble(0)
    for pair in pairs:
        product, first = _product(*pair)
        total, second = _sum(total, product)
        low = low + first + second
    return total + low


def logistic(z: Array) -> Array:
    """1 / (1 + e^-z), the sum of terms that do not cancel near a pole."""
    a, b = -z.real, -z.imag
    near = 2 * np.cos(b / 2) ** 2 + np.cos(b) * np.expm1(a)
    real = np.where(np.abs(a) < 1, near, 1 + np.exp(a) * np.cos(b))
    return 1 / _complex(real, np.exp(a) * np.sin(b))


def log_plus_one(z: Array) -> Array:
    x, y = z.real, z.imag
    first, first_low = _product(x, x + 2)
    second, second_low = _product(y, y)
    total, low = _sum(first, second)
    # x + 2 is rounded; of a small x by what its square has.
    lost = (x + 2) - 2
    low = low + first_low + second_low + x * (x - lost)
    near = np.abs(total) < 0.5
    size = np.where(near, np.log1p(np.where(near, total + low, 0)) / 2, log(1 + z).real)
    return _complex(size, np.arctan2(y, 1 + x))


def expm1(z: Array) -> Array:
    """e^z - 1, the real part as a sum of terms that do not cancel."""
    return _complex(
        np.expm1(z.real) * np.cos(z.imag) - 2 * np.sin(z.imag / 2) ** 2,
        np.exp(z.real) * np.sin(z.imag),
    )
