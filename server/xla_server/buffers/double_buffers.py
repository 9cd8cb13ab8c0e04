"""Double buffering of loops: two iterations one after the other, each in memory of its own.

The next state of a stencil cannot be written over the old one, so each iteration ends with a copy.
Instead, a second iteration reads the state where the first has written it, and writes its own where
the first has read. Only if the number of iterations is odd, the last state is copied.
"""

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from xla_server.buffers import code as thunk_ir
from xla_server.buffers.assignment import Assignment, assign
from xla_server.buffers.code import CopyThunk, Label, Thunk, Value
from xla_server.buffers.parallel_copies import parallel_copies
from xla_server.buffers.slots import copies_nothing
from xla_server.ir.module import HloInstruction
from xla_server.target.loop_tuning import DoubleBuffers

_SINGLE = thunk_ir.HostThunk, thunk_ir.CollectiveThunk, thunk_ir.LeaveThunk
"""Thunks that code has once, as a run counts them."""


def with_double_buffers(
    code: thunk_ir.Code, assignment: Assignment, tuned: DoubleBuffers
) -> tuple[thunk_ir.Code, Assignment]:
    """Return code in which loops that copy their state have two iterations, and its assignment.

    A loop around such a loop keeps one, so each thunk is written twice at most. If the arena
    would grow, all loops keep one.
    """
    thunks: list[Thunk] = []
    origins = dict(code.origins)
    begins: dict[Label, int] = {}
    reads = collections.Counter(value for each in code.thunks for value in thunk_ir.reads(each))
    reads.update(code.results)
    end = 0
    for thunk in code.thunks:
        if isinstance(thunk, Label):
            begins[thunk] = len(thunks)
        thunks.append(thunk)
        if not isinstance(thunk, thunk_ir.Jump) or begins.get(thunk.label, -1) < end:
            continue
        begin = begins[thunk.label]
        copies = _last_copies(thunks)
        copied = sum(
            each.target.byte_size for each in copies if not copies_nothing(each, assignment)
        )
        if copied < tuned.min_copied_bytes * (len(thunks) - begin):
            continue
        loop = _Loop(thunks[begin:], copies, reads)
        if loop.is_repeatable:
            thunks[begin:] = loop.doubled(origins)
        # Loops around it are not repeatable, either.
        end = len(thunks)
    if len(thunks) == len(code.thunks):
        return code, assignment
    changed = dataclasses.replace(code, thunks=thunks, origins=origins)
    found = assign(changed)
    added = max(tuned.max_added_bytes, assignment.arena_bytes // tuned.max_added_share)
    if found.arena_bytes > assignment.arena_bytes + added:
        return code, assignment
    return changed, found


def _last_copies(thunks: Sequence[Thunk]) -> list[CopyThunk]:
    """Return the copies just before the last thunk."""
    before = itertools.islice(reversed(thunks), 1, None)
    copies = [*itertools.takewhile(lambda thunk: isinstance(thunk, CopyThunk), before)]
    return cast(list[CopyThunk], copies[::-1])


class _Loop:
    """A loop: a label, the condition and the body, `copies` to the state, and a jump."""

    def __init__(
        self, thunks: Sequence[Thunk], copies: Sequence[CopyThunk], reads: Mapping[Value, int]
    ) -> None:
        self._begin, *self._body, self._back = thunks
        del self._body[len(self._body) - len(copies) :]
        self._following = _following(copies, reads)
        """The next value of each value of the state."""
        written = (value for thunk in self._body for value in thunk_ir.writes(thunk))
        self._written = dict.fromkeys(written)
        self._labels = [thunk for thunk in self._body if isinstance(thunk, Label)]
        left = {label for thunk in self._body for label in thunk_ir.targets(thunk)}
        self._exits = left.difference(self._labels)

    @property
    def is_repeatable(self) -> bool:
        """Return whether code may have the body twice.

        It must have one exit, compute each value before it reads it, and not write the state.
        """
        touched: set[Value] = set()
        for thunk in self._body:
            if isinstance(thunk, _SINGLE):
                return False
            if any(v in self._written and v not in touched for v in thunk_ir.reads(thunk)):
                return False
            touched.update(thunk_ir.reads(thunk), thunk_ir.writes(thunk))
        return len(self._exits) == 1 and self._following.keys().isdisjoint(self._written)

    def doubled(self, origins: dict[Thunk, HloInstruction]) -> list[Thunk]:
        """Return the loop with two iterations, and record the origins of the second."""
        (end,) = self._exits
        odd = Label(f"{end.name}.odd")
        second = _Renaming(
            {v: Value(v.shape, f"{v.name}.second") for v in self._written} | self._following,
            {label: Label(f"{label.name}.second") for label in self._labels} | {end: odd},
        )
        copies = parallel_copies({to: second.value(of) for to, of in self._following.items()})
        # A value of its own for each, as the next state of one may be in the memory of another.
        saved = {to: Value(to.shape, f"{to.name}.saved") for to in self._following}
        last: list[Thunk] = [
            *(CopyThunk(saved[to], of) for to, of in self._following.items()),
            *(CopyThunk(to, of) for to, of in saved.items()),
            thunk_ir.Jump(end),
        ]
        again = {second.thunk(thunk): thunk for thunk in self._body}
        origin_of: dict[Thunk, Thunk] = {**again}
        origin_of |= dict.fromkeys((*copies, odd, *last), self._back)
        origins |= {new: origins[old] for new, old in origin_of.items() if old in origins}
        return [self._begin, *self._body, *again, *copies, self._back, odd, *last]


def _following(copies: Sequence[CopyThunk], reads: Mapping[Value, int]) -> dict[Value, Value]:
    """Return the next value of each value of a state, by what the copies do one after the other.

    `reads` counts the reads of values. A value that only later ones of the copies read is none of
    the state.
    """
    found: dict[Value, Value] = {}
    own = collections.Counter[Value]()
    for copy in copies:
        if copy.source in found:
            own[copy.source] += 1
        found[copy.target] = found.get(copy.source, copy.source)
    return {to: of for to, of in found.items() if reads[to] > own[to]}


@dataclasses.dataclass(frozen=True, slots=True)
class _Renaming:
    """Replaces values and labels; others stay."""

    values: Mapping[Value, Value]
    labels: Mapping[Label, Label]

    def value(self, value: Value) -> Value:
        """Return the value that replaces another."""
        return self.values.get(value, value)

    def thunk(self, thunk: Thunk) -> Thunk:
        """Return a thunk of these values and labels."""
        match thunk:
            case thunk_ir.KernelThunk():
                return dataclasses.replace(
                    thunk,
                    arguments=self._all(thunk.arguments),
                    reads=self._all(thunk.reads),
                    writes=self._all(thunk.writes),
                    in_place=self._in_place(thunk),
                    updates=self._all(thunk.updates),
                )
            case CopyThunk():
                return CopyThunk(self.value(thunk.target), self.value(thunk.source))
            case Label():
                return self._label(thunk)
            case thunk_ir.Jump():
                return thunk_ir.Jump(self._label(thunk.label))
            case thunk_ir.Branch():
                return thunk_ir.Branch(self.value(thunk.predicate), self._label(thunk.otherwise))
            case thunk_ir.Switch():
                labels = tuple(map(self._label, thunk.labels))
                return thunk_ir.Switch(self.value(thunk.index), labels)
        raise AssertionError(thunk)

    def _in_place(self, thunk: thunk_ir.KernelThunk) -> tuple[tuple[Value, Value], ...]:
        """Return the pairs that may share memory; one value may replace several operands."""
        operands = collections.Counter(map(self.value, dict.fromkeys(thunk.reads)))
        pairs = collections.Counter(
            (self.value(a), self.value(b)) for a, b in dict.fromkeys(thunk.in_place)
        )
        return tuple(pair for pair, count in pairs.items() if count >= operands[pair[1]])

    def _all(self, values: Iterable[Value]) -> tuple[Value, ...]:
        return tuple(map(self.value, values))

    def _label(self, label: Label) -> Label:
        return self.labels.get(label, label)
