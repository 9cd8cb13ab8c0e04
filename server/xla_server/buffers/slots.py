"""Slots of encoded programs: the buffers that thunks use, by kind, and the label positions."""

from collections.abc import Iterable

from xla_server.buffers import code as thunk_ir
from xla_server.buffers.assignment import Assignment, Location


def addressed(thunk: thunk_ir.Thunk) -> tuple[thunk_ir.Value, ...]:
    """Return the values whose addresses a thunk needs."""
    touched = (*thunk_ir.reads(thunk), *thunk_ir.writes(thunk))
    if isinstance(thunk, thunk_ir.KernelThunk):
        # A kernel may have arguments that it never reads.
        touched = thunk.arguments
    return tuple(value for value in touched if not is_given(value))


def is_given(value: thunk_ir.Value) -> bool:
    """Return whether the executor passes a value's address, so that it has no location."""
    named = thunk_ir.CANCELLATION, thunk_ir.POSITION, thunk_ir.GROUP_SIZE
    return value in named or isinstance(value, thunk_ir.Gathered)


def of_kind(kind: str, locations: Iterable[Location]) -> list[Location]:
    """Return the distinct locations of a kind, in order."""
    return list(dict.fromkeys(location for location in locations if location.kind == kind))


def copies_nothing(thunk: object, assignment: Assignment) -> bool:
    """Return whether a thunk copies a value whose target shares its memory."""
    return isinstance(thunk, thunk_ir.CopyThunk) and (
        assignment.locations[thunk.target] == assignment.locations[thunk.source]
    )


def label_positions(thunks: Iterable[object]) -> dict[thunk_ir.Label, int]:
    """Return the index of the thunk after each label, labels not counted."""
    found: dict[thunk_ir.Label, int] = {}
    position = 0
    for thunk in thunks:
        if isinstance(thunk, thunk_ir.Label):
            found[thunk] = position
        else:
            position += 1
    return found
