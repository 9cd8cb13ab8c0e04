"""Segments: thunks of a program that a graph can have, with the loops and branches among them.

Loops and branches are found in the thunks as lowering writes them. A loop is a condition, a Branch
out of it, a body and a Jump to its begin. Cases follow a Branch or Switch, and each ends with a
Jump to the thunk after the last one. Thunks of another form, and steps of the server, are executed
one by one.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from xla_server.backends.cuda.worker.exchange import protocol


@dataclasses.dataclass(frozen=True, slots=True)
class Loop:
    """A condition, and a body that is executed while the condition leaves its byte not zero.

    The condition is thunks alone: a graph has it twice, before the loop and at the end of its body.
    """

    condition: tuple[int, ...]
    predicate: int
    body: "Items"
    first: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A switch on an index in a slot, of `byte_size` bytes; the last case for other numbers."""

    index: int
    byte_size: int
    cases: tuple["Items", ...]
    first: int
    end: int


Item: TypeAlias = int | Loop | Case
"""A thunk by its number, or thunks from `first` to `end` with jumps in them."""

MAX_DEPTH = 16
"""Deepest nesting of loops and branches in a graph."""

Items: TypeAlias = tuple[Item, ...]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Thunks up to `end` that may be one graph; `has_jumps` if loops or branches are among them."""

    first: int
    end: int
    items: Items
    has_jumps: bool


def segments(
    thunks: Sequence[protocol.DeviceThunk], *, with_jumps: bool = True
) -> Mapping[int, tuple[Segment, ...]]:
    """Return the segments that begin at a thunk, the longest first.

    Those without jumps have two or more thunks, and no jump leads into them. With `with_jumps`
    there are those with loops or branches, too, and each loop alone: a run may be inside an outer
    loop.
    """
    found: dict[int, list[Segment]] = {}
    structures = _Parser(thunks).structures() if with_jumps else {}
    for each in (*_with_jumps(thunks, structures), *_plain(thunks)):
        at = found.setdefault(each.first, [])
        if all(other.end != each.end for other in at):
            at.append(each)
    return {
        first: tuple(sorted(each, key=lambda segment: -segment.end))
        for first, each in found.items()
    }


def _plain(thunks: Sequence[protocol.DeviceThunk]) -> Iterator[Segment]:
    targets = {target for thunk in thunks for target in _targets(thunk)}
    first = 0
    for number in range(len(thunks) + 1):
        ends = number == len(thunks) or not _has_graphs(thunks[number])
        if ends or number in targets:
            if number - first > 1:
                yield Segment(first, number, tuple(range(first, number)), has_jumps=False)
            first = number + 1 if ends else number


def _with_jumps(
    thunks: Sequence[protocol.DeviceThunk], structures: Mapping[int, Loop | Case]
) -> Iterator[Segment]:
    """Yield the longest segments with loops or branches, and each loop as a segment."""
    inside = {thunk for each in structures.values() for thunk in range(each.first, each.end)}
    targets = {
        target
        for number, thunk in enumerate(thunks)
        if number not in inside
        for target in _targets(thunk)
    }
    items: list[Item] = []
    first = at = 0
    while at <= len(thunks):
        structure = structures.get(at)
        ends = at == len(thunks) or not (structure or _has_graphs(thunks[at]))
        if ends or at in targets:
            if not all(isinstance(item, int) for item in items):
                yield Segment(first, at, tuple(items), has_jumps=True)
            items, first = [], at + 1 if ends else at
        if not ends:
            items.append(structure or at)
        at = structure.end if structure else at + 1
    for structure in structures.values():
        yield from _loops(structure)


def _loops(item: Item) -> Iterator[Segment]:
    match item:
        case Loop():
            yield Segment(item.first, item.end, (item,), has_jumps=True)
            parts: tuple[Items, ...] = (item.body,)
        case Case():
            parts = item.cases
        case _:
            return
    for part in parts:
        for each in part:
            yield from _loops(each)


def slots_of(thunk: protocol.DeviceThunk | Loop | Case) -> tuple[int, ...]:
    """Return the slots whose values a thunk, or the jumps of a loop or branch, read or write."""
    match thunk:
        case protocol.Launch(_, slots) | protocol.LibraryCall(_, slots):
            return slots
        case protocol.Copy(target, source):
            return target, source
        case protocol.Branch(slot) | protocol.Switch(slot) | Case(slot):
            return (slot,)
        case Loop(predicate=slot):
            return (slot,)
    return ()


class _OtherFormError(Exception):
    """Thunks are not of a form that a graph can represent."""


class _Parser:
    """Finds loops and branches in thunks."""

    def __init__(self, thunks: Sequence[protocol.DeviceThunk]) -> None:
        self._thunks = thunks
        self._jumps: dict[int, list[int]] = {}
        for number, thunk in enumerate(thunks):
            if isinstance(thunk, protocol.Jump):
                self._jumps.setdefault(thunk.target, []).append(number)

    def structures(self) -> Mapping[int, Loop | Case]:
        """Return the outermost loops and branches that a graph can have, by their first thunks."""
        found: dict[int, Loop | Case] = {}
        at = 0
        while at < len(self._thunks):
            structure = self._structure(at, len(self._thunks), 0)
            if structure is not None:
                found[at] = structure
            at = structure.end if structure else at + 1
        return found

    def _structure(self, at: int, end: int, depth: int) -> Loop | Case | None:
        """Return the loop or branch that begins at a thunk and ends before `end`; the outermost."""
        jumps = [jump for jump in self._jumps.get(at, ()) if at <= jump < end]
        is_choice = isinstance(self._thunks[at], protocol.Branch | protocol.Switch)
        try:
            if depth < MAX_DEPTH and jumps:
                return self._loop(at, jumps[-1], depth + 1)
            if depth < MAX_DEPTH and is_choice:
                return self._cases(at, end, depth + 1)
        except _OtherFormError:
            pass
        return None

    def _items(self, first: int, end: int, depth: int) -> Items:
        found: list[Item] = []
        at = first
        while at < end:
            structure = self._structure(at, end, depth)
            if structure is None and not _has_graphs(self._thunks[at]):
                raise _OtherFormError
            found.append(at if structure is None else structure)
            at = at + 1 if structure is None else structure.end
        return tuple(found)

    def _loop(self, first: int, jump: int, depth: int) -> Loop:
        for number in range(first, jump):
            thunk = self._thunks[number]
            if isinstance(thunk, protocol.Branch) and thunk.otherwise == jump + 1:
                condition = tuple(range(first, number))
                if not all(_has_graphs(self._thunks[each]) for each in condition):
                    raise _OtherFormError
                body = self._items(number + 1, jump, depth)
                return Loop(condition, thunk.predicate, body, first, jump + 1)
        raise _OtherFormError

    def _cases(self, at: int, end: int, depth: int) -> Case:
        thunk = self._thunks[at]
        assert isinstance(thunk, protocol.Branch | protocol.Switch)
        begins = (at + 1, thunk.otherwise) if isinstance(thunk, protocol.Branch) else thunk.targets
        last = self._jump_before(begins[1] if len(begins) > 1 else end)
        if last is None or not begins[-1] < last <= end:
            raise _OtherFormError
        ends = (*begins[1:], last)
        is_in_order = list(begins) == sorted({at + 1, *begins})
        if not is_in_order or any(self._jump_before(each) != last for each in ends):
            raise _OtherFormError
        cases = tuple(
            self._items(begin, behind - 1, depth)
            for begin, behind in zip(begins, ends, strict=True)
        )
        if isinstance(thunk, protocol.Branch):
            return Case(thunk.predicate, 1, cases[::-1], at, last)
        return Case(thunk.index, 4, cases, at, last)

    def _jump_before(self, number: int) -> int | None:
        thunk = self._thunks[number - 1]
        return thunk.target if isinstance(thunk, protocol.Jump) else None


def _has_graphs(thunk: protocol.DeviceThunk) -> bool:
    return isinstance(thunk, protocol.Launch | protocol.Copy) or (
        isinstance(thunk, protocol.LibraryCall) and thunk.plan.has_graphs
    )


def _targets(thunk: protocol.DeviceThunk) -> tuple[int, ...]:
    match thunk:
        case protocol.Jump(target):
            return (target,)
        case protocol.Branch(_, otherwise):
            return (otherwise,)
        case protocol.Switch(_, thunks):
            return thunks
    return ()
