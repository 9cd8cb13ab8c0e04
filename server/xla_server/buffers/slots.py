"""Slots of encoded programs: which buffers rows name, by kind, and where their labels are."""

from collections.abc import Iterable

from xla_server.buffers import code as thunks
from xla_server.buffers.assignment import Assignment, Location


def addressed(row: thunks.Row) -> tuple[thunks.Value, ...]:
    """Return the values whose addresses a row needs."""
    touched = (*thunks.reads(row), *thunks.writes(row))
    if isinstance(row, thunks.KernelThunk):
        # It may have arguments that it never reads.
        touched = row.arguments
    return tuple(value for value in touched if not is_given(value))


def is_given(value: thunks.Value) -> bool:
    """Return whether the executor gives kernels the address of a value, which has no memory."""
    named = thunks.CANCELLATION, thunks.POSITION, thunks.GROUP_SIZE
    return value in named or isinstance(value, thunks.Gathered)


def of_kind(kind: str, places: Iterable[Location]) -> list[Location]:
    """Return the buffers of a kind, each once."""
    return list(dict.fromkeys(place for place in places if place.kind == kind))


def copies_nothing(row: object, assignment: Assignment) -> bool:
    """Return whether a row copies a value to its own memory."""
    return isinstance(row, thunks.CopyThunk) and (
        assignment.places[row.target] == assignment.places[row.source]
    )


def label_positions(rows: Iterable[object]) -> dict[thunks.Label, int]:
    """Return the number of the row behind each label, where labels are no rows."""
    found: dict[thunks.Label, int] = {}
    position = 0
    for row in rows:
        if isinstance(row, thunks.Label):
            found[row] = position
        else:
            position += 1
    return found
