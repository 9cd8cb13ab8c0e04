"""Slots of encoded programs: the buffers that thunks use, by kind, and the label positions."""

from collections.abc import Iterable

from xla_server.buffers import code as thunks
from xla_server.buffers.assignment import Assignment, Location


def addressed(row: thunks.Row) -> tuple[thunks.Value, ...]:
    """Return the values whose addresses a row needs."""
    touched = (*thunks.reads(row), *thunks.writes(row))
    if isinstance(row, thunks.KernelThunk):
        # A kernel may have arguments that it never reads.
        touched = row.arguments
    return tuple(value for value in touched if not is_given(value))


def is_given(value: thunks.Value) -> bool:
    """Return whether the executor passes a value's address, so that it has no location."""
    named = thunks.CANCELLATION, thunks.POSITION, thunks.GROUP_SIZE
    return value in named or isinstance(value, thunks.Gathered)


def of_kind(kind: str, locations: Iterable[Location]) -> list[Location]:
    """Return the distinct locations of a kind, in order."""
    return list(dict.fromkeys(location for location in locations if location.kind == kind))


def copies_nothing(row: object, assignment: Assignment) -> bool:
    """Return whether a thunk copies a value whose target shares its memory."""
    return isinstance(row, thunks.CopyThunk) and (
        assignment.locations[row.target] == assignment.locations[row.source]
    )


def label_positions(rows: Iterable[object]) -> dict[thunks.Label, int]:
    """Return the index of the thunk after each label, labels not counted."""
    found: dict[thunks.Label, int] = {}
    position = 0
    for row in rows:
        if isinstance(row, thunks.Label):
            found[row] = position
        else:
            position += 1
    return found
