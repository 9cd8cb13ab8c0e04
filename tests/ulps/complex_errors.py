"""Errors of functions of complex numbers: normwise, in units of the result.

The unit of a result is one ULP of its magnitude. References are the C library's functions
of 80 bits, by numpy; of powers and logarithms their formulas on sums of two such numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.unit.codegen.compiled import built, pairs
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.ops.elementwise.elementwise import BINARY, UNARY

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


def _atan2(y: Array, x: Array) -> Array:
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


REFERENCE: Mapping[str, Callable[..., Array]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "add": np.add,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": lambda y, x: _atan2(y, x),
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
    part = -(-count // 5)
    spread = 10.0 ** random.uniform(-12, 2, (4, part)) * random.choice([-1, 1], (4, part))
    turns = random.uniform(-np.pi, np.pi, part)
    groups = [
        random.standard_normal(part) * 3 + 1j * random.standard_normal(part) * 3,
        spread[0] + 1j * spread[1],
        np.exp(1j * turns) * (1 + 0.1 * spread[2] / 100),
        random.choice([1, -1, 1j, -1j], part) + 0.01 * (spread[2] + 1j * spread[3]),
        (spread[0] + 1j * random.standard_normal(part))[:part],
    ]
    return np.concatenate(groups)[:count].astype(DTYPE[kind])


def errors(result: Array, exact: Array, kind: str) -> Array:
    """Return the distances in ULP of the exact result, where that is a normal number."""
    part = np.finfo(DTYPE[kind])
    size = np.abs(exact)
    ordinary = (size > part.smallest_normal / part.eps) & (size < part.max / 16)
    exponent = np.floor(np.log2(np.where(ordinary, size, 1)))
    unit = np.exp2(exponent) * np.longdouble(UNIT[kind])
    return np.where(ordinary, np.abs(result.astype(WIDE) - exact) / unit, 0)


def operands_of(opcode: str, kind: str, count: int, seed: int) -> list[Array]:
    """Samples for every operand; of two, some near the poles of what both make."""
    first = samples(count, kind, 3 * seed)
    if opcode not in BINARY:
        return [first]
    random = np.random.default_rng(3 * seed + 1)
    second = random.permutation(samples(count, kind, 3 * seed + 2))
    if opcode == "power":
        parts = random.standard_normal((2, first.size)) * [[30], [8]]
        second = (parts[0] + 1j * parts[1]).astype(first.dtype)
    if opcode == "atan2":
        distance = 1 + 10.0 ** random.uniform(-16, 0, second.size)
        near = first.astype(np.complex128) * random.choice([1j, -1j], second.size) * distance
        second = np.where(random.random(second.size) < 0.3, near, second).astype(first.dtype)
    return [first, second]


OPCODES = sorted(opcode for opcode in map(str, (*UNARY, *BINARY)) if opcode in REFERENCE)
NAMES = {
    "cosine": "cos",
    "divide": "div",
    "exponential": "exp",
    "exponential-minus-one": "expm1",
    "log-plus-one": "log1p",
    "multiply": "mul",
    "power": "pow",
    "sine": "sin",
    "subtract": "sub",
}
"""Functions of the client, of opcodes that it names otherwise."""

FUNCTIONS = {NAMES.get(opcode, opcode): opcode for opcode in OPCODES}
"""Opcodes by the name of the client's function."""


def computed(opcode: str, operands: Sequence[Array]) -> tuple[Array, Array]:
    """Return the results of the cpu platform and of the interpreter."""
    function = getattr(ops, NAMES.get(opcode, opcode))

    def program(*parameters: Op) -> Op:
        return function(*parameters)  # type: ignore[no-any-return]

    module = built(program, list(operands))
    ((compiled, expected),) = pairs(module, operands)
    return compiled, expected


def exact(opcode: str, operands: Sequence[Array]) -> Array:
    """Return the reference's results."""
    with np.errstate(all="ignore"):
        return REFERENCE[opcode](*(operand.astype(WIDE) for operand in operands))


def worst(opcode: str, kind: str, operands: Sequence[Array]) -> tuple[float, int]:
    """Return the largest error of both platforms, and at which element; NaN is infinitely far."""
    right = exact(opcode, operands)
    with np.errstate(all="ignore"):
        found = np.maximum(*(errors(result, right, kind) for result in computed(opcode, operands)))
    found = np.where(np.isnan(found), np.inf, found)
    place = int(np.argmax(found))
    return float(found[place]), place
