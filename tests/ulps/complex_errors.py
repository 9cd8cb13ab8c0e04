"""Errors of functions of complex numbers: normwise, in units of the result.

The unit of a result is one ULP of its magnitude. References are the C library's functions
of 80 bits, by numpy; of powers and logarithms their formulas on sums of two such numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.elementwise_operations import OPERATIONS
from tests.ulps.exact_sums import WIDE
from tests.unit.codegen.compiled import built, pairs
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.ops.elementwise.elementwise import BINARY

Array = Any
BOUND = 4.0
"""Units that no function exceeds."""

UNIT = {"c64": 2.0**-24 * 2, "c128": 2.0**-53 * 2}
DTYPE = {"c64": np.complex64, "c128": np.complex128}


REFERENCE: Mapping[str, Callable[..., Array]] = {
    str(opcode): row.complex for opcode, row in OPERATIONS.items() if row.complex is not None
}


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


OPCODES = sorted(REFERENCE)
NAMES = {str(opcode): row.function for opcode, row in OPERATIONS.items()}
"""Functions of the client."""

FUNCTIONS = {NAMES[opcode]: opcode for opcode in OPCODES}
"""Opcodes by the name of the client's function."""


def computed(opcode: str, operands: Sequence[Array]) -> tuple[Array, Array]:
    """Return the results of the cpu platform and of the interpreter."""
    function = getattr(ops, NAMES[opcode])

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
