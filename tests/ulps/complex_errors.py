"""How far functions of complex numbers are from exact ones: normwise, in units of the result.

The unit of a result is one ULP of its magnitude. References are the C library's functions
of 80 bits, by numpy; of powers and logarithms their formulas on sums of two such numbers.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xla_contract.ops.elementwise import BINARY, UNARY

Array = Any
WIDE = np.clongdouble
BOUND = 4.0
"""Units that no function exceeds."""

UNIT = {"c64": 2.0**-24 * 2, "c128": 2.0**-53 * 2}
DTYPE = {"c64": np.complex64, "c128": np.complex128}


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


def _log(z: Array) -> Array:
    high, rest, angle = _log_parts(z)
    return _complex(high + rest, angle)


def _complex(real: Array, imag: Array) -> Array:
    result = np.empty(np.shape(real), WIDE)
    result.real, result.imag = real, imag
    return result


def _power(base: Array, exponent: Array) -> Array:
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


REFERENCE: Mapping[str, Callable[..., Array]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "add": np.add,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cosh": np.cosh,
    "cosine": np.cos,
    "divide": np.divide,
    "exponential": np.exp,
    "exponential-minus-one": lambda z: _complex(
        np.expm1(z.real) * np.cos(z.imag) - 2 * np.sin(z.imag / 2) ** 2,
        np.exp(z.real) * np.sin(z.imag),
    ),
    "log": _log,
    "log-plus-one": lambda z: _log1p(z),
    "logistic": lambda z: _logistic(z),
    "multiply": np.multiply,
    "power": _power,
    "rsqrt": lambda z: 1 / np.sqrt(z),
    "sign": lambda z: z / np.abs(z),
    "sine": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "subtract": np.subtract,
    "tan": np.tan,
    "tanh": np.tanh,
}


def _logistic(z: Array) -> Array:
    """1 / (1 + e^-z), the sum of terms that do not cancel near a pole."""
    a, b = -z.real, -z.imag
    near = 2 * np.cos(b / 2) ** 2 + np.cos(b) * np.expm1(a)
    real = np.where(np.abs(a) < 1, near, 1 + np.exp(a) * np.cos(b))
    return 1 / _complex(real, np.exp(a) * np.sin(b))


def _log1p(z: Array) -> Array:
    x, y = z.real, z.imag
    first, first_low = _product(x, x + 2)
    second, second_low = _product(y, y)
    total, low = _sum(first, second)
    # x + 2 is rounded; of a small x by what its square has.
    lost = (x + 2) - 2
    low = low + first_low + second_low + x * (x - lost)
    near = np.abs(total) < 0.5
    size = np.where(near, np.log1p(np.where(near, total + low, 0)) / 2, _log(1 + z).real)
    return _complex(size, np.arctan2(y, 1 + x))


def samples(count: int, kind: str, seed: int) -> Array:
    """Numbers of all sizes, near 1 in magnitude and value, near poles and branch points."""
    random = np.random.default_rng(seed)
    part = count // 5
    spread = 10.0 ** random.uniform(-12, 2, (4, part)) * random.choice([-1, 1], (4, part))
    turns = random.uniform(-np.pi, np.pi, part)
    groups = [
        random.standard_normal(part) * 3 + 1j * random.standard_normal(part) * 3,
        spread[0] + 1j * spread[1],
        np.exp(1j * turns) * (1 + 0.1 * spread[2] / 100),
        random.choice([1, -1, 1j, -1j], part) + 0.01 * (spread[2] + 1j * spread[3]),
        (spread[0] + 1j * random.standard_normal(part))[:part],
    ]
    return np.concatenate(groups).astype(DTYPE[kind])


def errors(result: Array, exact: Array, kind: str) -> Array:
    """Return the distances in ULP of the exact result, where that is a normal number."""
    part = np.finfo(DTYPE[kind])
    size = np.abs(exact)
    ordinary = (size > part.smallest_normal / part.eps) & (size < part.max / 16)
    exponent = np.floor(np.log2(np.where(ordinary, size, 1)))
    unit = np.exp2(exponent) * np.longdouble(UNIT[kind])
    return np.where(ordinary, np.abs(result.astype(WIDE) - exact) / unit, 0)


OPCODES = sorted(opcode for opcode in map(str, (*UNARY, *BINARY)) if opcode in REFERENCE)
