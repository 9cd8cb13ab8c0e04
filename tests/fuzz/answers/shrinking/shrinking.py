"""Making the module that shows a difference small."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.fuzz.answers.checking import Difference, Reference
from tests.fuzz.answers.shrinking.alone import alone, leaves
from tests.fuzz.answers.shrinking.pruning import ancestors, pruned
from tests.fuzz.answers.sides import Side, SideError
from tests.fuzz.answers.steps.graph import Case, entry_of
from xla_contract.types.opcode import Opcode

MAX_RUNS = 60
"""Runs that one difference is shrunk with: each compiles a module."""


@dataclasses.dataclass(frozen=True)
class Shrunk:
    """A small module, or the first one if no smaller one differs, with what is wrong in it."""

    case: Case
    difference: Difference


def shrunk(case: Case, difference: Difference, side: Side) -> Shrunk:
    """Return the smallest module found in which the operation of the difference differs."""
    best = Shrunk(case, difference)
    runs = 0
    for candidate in _single(best):
        runs += 1
        if found := _differs(candidate, side, difference.opcode):
            best = found
            break
    while runs < MAX_RUNS:
        for candidate in (*_shorter(best), *_plainer(best)):
            runs += 1
            found = _differs(candidate, side, difference.opcode)
            if found is not None:
                best = found
                break
            if runs >= MAX_RUNS:
                break
        else:
            return best
    return best


def _differs(case: Case, side: Side, opcode: Opcode) -> Shrunk | None:
    try:
        results = side.run(case.proto, case.arguments)
        found = Reference(case.proto).differences(side.name, case.arguments, results)
    except (SideError, ValueError, KeyError):
        return None
    same = [difference for difference in found if difference.opcode is opcode]
    return Shrunk(case, same[0]) if same else None


def _single(best: Shrunk) -> Iterator[Case]:
    """The operation alone, with the operands that it had."""
    judged = best.difference.judged
    yield Case(best.case.origin, alone(judged.instruction), list(leaves(judged.operands)))


def _shorter(best: Shrunk) -> Iterator[Case]:
    """Modules that end with the instruction, and then with others as parameters."""
    proto = best.case.proto
    entry = entry_of(proto)
    if len(entry.instructions) <= len(best.difference.judged.operands) + 2:
        return
    (last,) = (one.id for one in entry.instructions if one.name == best.difference.name)
    needed = ancestors(entry, last)
    if len(needed) + 1 < len(entry.instructions):
        yield pruned(best.case, needed)


def _plainer(best: Shrunk) -> Iterator[Case]:
    """Yield the module with zeros or ones instead of an argument, or a half of it."""
    arguments = best.case.arguments
    for number, array in enumerate(arguments):
        flat = np.ascontiguousarray(array).reshape(-1)
        for start, stop in _spans(array.size):
            for value in (0, 1):
                changed: Any = flat.copy()
                changed[start:stop] = np.asarray(value).astype(array.dtype)
                # Zeros are plainer than ones, and nothing is plainer than zeros.
                part = flat[start:stop].view(np.uint8)
                plain = [np.asarray(v).astype(array.dtype) for v in range(value + 1)]
                if any((part == np.full(stop - start, p).view(np.uint8)).all() for p in plain):
                    break
                altered = [*arguments]
                altered[number] = changed.reshape(array.shape)
                yield Case(best.case.origin, best.case.proto, altered)


def _spans(size: int) -> Iterator[tuple[int, int]]:
    step = size
    while step >= 1 and step * 8 >= size:
        for start in range(0, size, step):
            yield start, min(start + step, size)
        step //= 2
