"""Liveness of values, and interference: values that are live together cannot share memory.

Sets of values are bits of Python integers, so that the union of two sets is one operation.
"""

import dataclasses
from collections.abc import Iterable

import numpy as np

from xla_server.buffers import code as thunk_ir
from xla_server.ir.checkpoints import checkpoint


@dataclasses.dataclass(frozen=True, slots=True)
class Liveness:
    """The values by number, and for each thunk the set of values that are live after it."""

    values: tuple[thunk_ir.Value, ...]
    numbers: dict[thunk_ir.Value, int]
    after: tuple[int, ...]


def analyse(code: thunk_ir.Code) -> Liveness:
    """Compute the values that are live after each thunk. Results are live after the last."""
    touched = (
        value
        for thunk in code.thunks
        for value in (*thunk_ir.reads(thunk), *thunk_ir.writes(thunk))
    )
    every = dict.fromkeys((*code.parameters, *code.constants, *code.results, *touched))
    values = {value: number for number, value in enumerate(every)}
    labels = {thunk: n for n, thunk in enumerate(code.thunks) if isinstance(thunk, thunk_ir.Label)}
    reads = [_bits(thunk_ir.reads(thunk), values) for thunk in code.thunks]
    writes = [_bits(_replaced(thunk), values) for thunk in code.thunks]
    successors = [_successors(n, thunk, labels) for n, thunk in enumerate(code.thunks)]
    before = [0] * (len(code.thunks) + 1)
    before[-1] = _bits(code.results, values)
    after = [0] * len(code.thunks)
    changed = True
    while changed:
        changed = False
        for n in reversed(range(len(code.thunks))):
            live = 0
            for successor in successors[n]:
                live |= before[successor]
            after[n] = live
            live = (live & ~writes[n]) | reads[n]
            if live != before[n]:
                before[n] = live
                changed = True
    return Liveness(tuple(values), values, tuple(after))


def interference(code: thunk_ir.Code, liveness: Liveness) -> list[int]:
    """Return for each value the set of values that must not share its memory.

    A thunk's written value conflicts with values that are live after the thunk, and with values
    that the thunk reads, except for the pairs that it allows `in_place`.
    """
    numbers = liveness.numbers
    conflicts = [0] * len(numbers)
    # Parameters and constants are live from the start.
    outside = (*code.parameters, *code.constants)
    together = _bits(outside, numbers)
    for value in outside:
        conflicts[numbers[value]] = together
    for n, thunk in enumerate(code.thunks):
        written = _bits(thunk_ir.writes(thunk), numbers)
        read, allowed = _bits(thunk_ir.reads(thunk), numbers), dict[thunk_ir.Value, int]()
        if isinstance(thunk, thunk_ir.KernelThunk):
            read = _bits(thunk.reads, numbers)
            for target, source in thunk.in_place:
                allowed[target] = allowed.get(target, 0) | 1 << numbers[source]
        elif isinstance(thunk, thunk_ir.CopyThunk) or (
            isinstance(thunk, thunk_ir.CollectiveThunk) and not thunk.is_referenced
        ):
            read = 0
        for value in thunk_ir.writes(thunk):
            taken = liveness.after[n] | (read & ~allowed.get(value, 0)) | written
            conflicts[numbers[value]] |= taken
    return _mutual([others & ~(1 << number) for number, others in enumerate(conflicts)])


_ROWS = 1024
"""Number of sets that are transposed at a time: their unpacked bits take a byte of memory each."""


def _mutual(conflicts: list[int]) -> list[int]:
    """Return the symmetric closure, vectorised: large programs have millions of pairs."""
    width = -(-len(conflicts) // 8)
    texts = b"".join(others.to_bytes(width, "little") for others in conflicts)
    sets = np.frombuffer(texts, np.uint8).reshape(len(conflicts), width)
    reverse = np.zeros_like(sets)
    for begin in range(0, len(conflicts), _ROWS):
        checkpoint()
        rows = sets[begin : begin + _ROWS]
        # Most values live briefly, so a block of rows has few nonzero columns.
        used = np.flatnonzero(rows.any(axis=0))
        transposed = np.packbits(
            np.unpackbits(rows[:, used], axis=1, bitorder="little").T, axis=1, bitorder="little"
        )
        others = (8 * used[:, None] + np.arange(8)).reshape(-1)
        are_values = others < len(conflicts)
        end = begin // 8 + transposed.shape[1]
        reverse[others[are_values], begin // 8 : end] = transposed[are_values]
    return [int.from_bytes(row.tobytes(), "little") for row in sets | reverse]


def members(bits: int) -> list[int]:
    """Return the numbers in a set."""
    text = np.frombuffer(bits.to_bytes(-(-bits.bit_length() // 8), "little"), np.uint8)
    found: list[int] = np.flatnonzero(np.unpackbits(text, bitorder="little")).tolist()
    return found


def _replaced(thunk: thunk_ir.Thunk) -> tuple[thunk_ir.Value, ...]:
    """Return the values of which a thunk writes all elements."""
    updates = thunk.updates if isinstance(thunk, thunk_ir.KernelThunk) else ()
    return tuple(value for value in thunk_ir.writes(thunk) if value not in updates)


def _bits(values: Iterable[thunk_ir.Value], numbers: dict[thunk_ir.Value, int]) -> int:
    total = 0
    for value in values:
        total |= 1 << numbers[value]
    return total


def _successors(
    n: int, thunk: thunk_ir.Thunk, labels: dict[thunk_ir.Label, int]
) -> tuple[int, ...]:
    if isinstance(thunk, thunk_ir.Jump):
        return (labels[thunk.label],)
    if isinstance(thunk, thunk_ir.Branch):
        return (n + 1, labels[thunk.otherwise])
    if isinstance(thunk, thunk_ir.CollectiveThunk):
        return (n + 1, labels[thunk.end])
    if isinstance(thunk, thunk_ir.Switch):
        return tuple(labels[label] for label in thunk.labels)
    return (n + 1,)
