"""The largest errors of functions, measured in chunks so that a long sweep may be interrupted."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.ulps import complex_errors
from tests.ulps.errors import worst
from tests.ulps.functions import BINARY, REFERENCE, computed, exact
from tests.ulps.samples import CHUNK, chunks
from xla_server.ops.elementwise.elementwise_table import ROWS

NARROW = ("f16", "bf16")
ULP_BOUND = {
    (row.kernel, name): bound
    for row in ROWS.values()
    if row.ulps is not None
    for name, bound in zip(("f32", "f64"), row.ulps, strict=True)
}
"""Bounds of errors in ULP of the exact result, by function and type.

The exact logistic is XLA's definition, 1 / (1 + e^-x): zero where e^-x is infinite.
"""

OPERATION_BOUND = {"rem": 0.0, "sqrt": 0.5}
"""Error bounds of operations of the processor or the C library, which round once."""

NARROW_BOUND = 0.51
"""Results in f32 are rounded again."""

COMPLEX = ("c64", "c128")
EVERY = [
    (function, name)
    for function in sorted({*REFERENCE, *complex_errors.FUNCTIONS})
    for name in (
        *(("f32", "f64", *NARROW) if function in REFERENCE else ()),
        *(COMPLEX if function in complex_errors.FUNCTIONS else ()),
    )
]
WHOLE = 1 << 32


@dataclasses.dataclass(frozen=True, slots=True)
class Error:
    """The largest error found so far, at which operands, among how many results."""

    ulps: float
    at: tuple[complex, ...]
    count: int


def bound_of(function: str, name: str) -> float:
    """The documented bound."""
    if name in COMPLEX:
        return complex_errors.BOUND
    own = OPERATION_BOUND.get(function)
    if own is None:
        own = ULP_BOUND[function, "f32" if name in NARROW else name]
    return own if name not in NARROW or own == 0 else NARROW_BOUND


def wanted(function: str, name: str, count: int) -> int:
    """Return the number of results to measure, if it is `count` for f32 functions of one
    operand.
    """
    if name in NARROW:
        return 1 << 16
    if name in COMPLEX:
        return min(count, 1 << 24) // 64
    if function in BINARY:
        return min(count, 1 << 24) // (4 if name == "f64" else 1)
    return count if name == "f32" else min(count, 1 << 24) // 4


def measured(function: str, name: str, count: int, known: Error | None = None) -> Iterator[Error]:
    """The error after each chunk, going on from what is known of the same measurement."""
    found = known or Error(0.0, (), 0)
    for done, operands, (error, place) in _errors(function, name, count, found.count):
        if error > found.ulps or not found.at:
            found = Error(error, tuple(_plain(operand[place]) for operand in operands), done)
        yield (found := dataclasses.replace(found, count=done))


def _plain(number: Any) -> complex:
    return complex(number) if number.dtype.kind == "c" else float(number)


def _errors(
    function: str, name: str, count: int, start: int
) -> Iterator[tuple[int, list[Any], tuple[float, int]]]:
    if name in COMPLEX:
        opcode = complex_errors.FUNCTIONS[function]
        for done in range(start, count, CHUNK):
            size = min(CHUNK, count - done)
            operands = complex_errors.operands_of(opcode, name, size, done)
            yield done + size, operands, complex_errors.worst(opcode, name, operands)
        return
    for done, operands in chunks(function, name, count, start):
        result = computed(function, *operands)
        yield done, operands, worst(name, result, exact(function, name, *operands))


class Notes:
    """Errors on disk, by function, type and how many results were wanted."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._errors: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def get(self, function: str, name: str, count: int) -> Error | None:
        """Return a measurement, which may be unfinished; None if there is none."""
        found = self._errors.get(f"{function} {name} {count}")
        if not found:
            return None
        at = (number if isinstance(number, float) else complex(*number) for number in found[1])
        return Error(found[0], tuple(at), found[2])

    def put(self, function: str, name: str, count: int, error: Error) -> None:
        """Write it down."""
        at = [[z.real, z.imag] if isinstance(z, complex) else z for z in error.at]
        self._errors[f"{function} {name} {count}"] = [error.ulps, at, error.count]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(self._errors, indent=1))
