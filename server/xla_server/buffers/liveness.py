"""Liveness of values, and interference: values that are live together cannot share memory.

Sets of values are bits of Python integers, so that the union of two sets is one operation.
"""

import dataclasses
from collections.abc import Iterable

import numpy as np

from xla_server.buffers import code as thunks


@dataclasses.dataclass(frozen=True, slots=True)
class Liveness:
    """The values by number, and for each row the set of values that are live after it."""

    values: tuple[thunks.Value, ...]
    numbers: dict[thunks.Value, int]
    after: tuple[int, ...]


def analyse(code: thunks.Code) -> Liveness:
    """Compute the values that are live after each row. Results are live after the last."""
    touched = (value for row in code.rows for value in (*thunks.reads(row), *thunks.writes(row)))
    every = dict.fromkeys((*code.parameters, *code.constants, *code.results, *touched))
    values = {value: number for number, value in enumerate(every)}
    labels = {row: n for n, row in enumerate(code.rows) if isinstance(row, thunks.Label)}
    reads = [_bits(thunks.reads(row), values) for row in code.rows]
    writes = [_bits(_replaced(row), values) for row in code.rows]
    successors = [_successors(n, row, labels) for n, row in enumerate(code.rows)]
    before = [0] * (len(code.rows) + 1)
    before[-1] = _bits(code.results, values)
    after = [0] * len(code.rows)
    changed = True
    while changed:
        changed = False
        for n in reversed(range(len(code.rows))):
            live = 0
            for successor in successors[n]:
                live |= before[successor]
            after[n] = live
            live = (live & ~writes[n]) | reads[n]
            if live != before[n]:
                before[n] = live
                changed = True
    return Liveness(tuple(values), values, tuple(after))


def interference(code: thunks.Code, liveness: Liveness) -> list[int]:
    """Return for each value the set of values that must not share its memory.

    A row's written value conflicts with values that are live after the row, and with values that
    the row reads, except for the pairs that it allows `in_place`.
    """
    numbers = liveness.numbers
    conflicts = [0] * len(numbers)
    # Parameters and constants are live from the start.
    outside = (*code.parameters, *code.constants)
    together = _bits(outside, numbers)
    for value in outside:
        conflicts[numbers[value]] = together
    for n, row in enumerate(code.rows):
        written = _bits(thunks.writes(row), numbers)
        read, allowed = _bits(thunks.reads(row), numbers), dict[thunks.Value, int]()
        if isinstance(row, thunks.KernelThunk):
            read = _bits(row.reads, numbers)
            for target, source in row.in_place:
                allowed[target] = allowed.get(target, 0) | 1 << numbers[source]
        elif isinstance(row, thunks.CopyThunk) or (
            isinstance(row, thunks.CollectiveThunk) and not row.is_referenced
        ):
            read = 0
        for value in thunks.writes(row):
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


def _replaced(row: thunks.Row) -> tuple[thunks.Value, ...]:
    """Return the values of which a row writes all elements."""
    updates = row.updates if isinstance(row, thunks.KernelThunk) else ()
    return tuple(value for value in thunks.writes(row) if value not in updates)


def _bits(values: Iterable[thunks.Value], numbers: dict[thunks.Value, int]) -> int:
    total = 0
    for value in values:
        total |= 1 << numbers[value]
    return total


def _successors(n: int, row: thunks.Row, labels: dict[thunks.Label, int]) -> tuple[int, ...]:
    if isinstance(row, thunks.Jump):
        return (labels[row.label],)
    if isinstance(row, thunks.Branch):
        return (n + 1, labels[row.otherwise])
    if isinstance(row, thunks.CollectiveThunk):
        return (n + 1, labels[row.end])
    if isinstance(row, thunks.Switch):
        return tuple(labels[label] for label in row.labels)
    return (n + 1,)
