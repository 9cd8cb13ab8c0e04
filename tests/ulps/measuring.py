"""The largest errors of functions, measured in chunks so that a long sweep may be interrupted."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.ulps.errors import worst
from tests.ulps.functions import BINARY, REFERENCE, computed, exact
from tests.ulps.samples import chunks
from xla_server.codegen.functions.elementwise import ULP_BOUND

NARROW = ("f16", "bf16")
OPERATION_BOUND = {"rem": 0.0, "sqrt": 0.5}
"""What the processor or the C library does, which rounds once."""

NARROW_BOUND = 0.51
"""Results in f32 are rounded again."""

EVERY = [(function, name) for function in REFERENCE for name in ("f32", "f64", *NARROW)]
WHOLE = 1 << 32


@dataclasses.dataclass(frozen=True, slots=True)
class Error:
    """The largest error found so far, at which operands, among how many results."""

    ulps: float
    at: tuple[float, ...]
    count: int


def bound_of(function: str, name: str) -> float:
    """The documented bound."""
    own = OPERATION_BOUND.get(function)
    if own is None:
        own = ULP_BOUND[function, "f32" if name in NARROW else name]
    return own if name not in NARROW or own == 0 else NARROW_BOUND


def wanted(function: str, name: str, count: int) -> int:
    """How many results are measured where `count` f32 of functions of one operand are."""
    if name in NARROW:
        return 1 << 16
    if function in BINARY:
        return min(count, 1 << 24) // (4 if name == "f64" else 1)
    return count if name == "f32" else min(count, 1 << 24) // 4


def measured(function: str, name: str, count: int, known: Error | None = None) -> Iterator[Error]:
    """The error after each chunk, going on from what is known of the same measurement."""
    found = known or Error(0.0, (), 0)
    for done, operands in chunks(function, name, count, found.count):
        result = computed(function, *operands)
        error, place = worst(name, result, exact(function, name, *operands))
        if error > found.ulps or not found.at:
            found = Error(error, tuple(float(operand[place]) for operand in operands), done)
        yield (found := dataclasses.replace(found, count=done))


class Notes:
    """Errors on disk, by function, type and how many results were wanted."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._errors: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def get(self, function: str, name: str, count: int) -> Error | None:
        """What is known of a measurement, which may be unfinished."""
        found = self._errors.get(f"{function} {name} {count}")
        return Error(found[0], tuple(found[1]), found[2]) if found else None

    def put(self, function: str, name: str, count: int, error: Error) -> None:
        """Write it down."""
        self._errors[f"{function} {name} {count}"] = dataclasses.astuple(error)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(self._errors, indent=1))
