"""Encoding of code and its buffer assignment as the tables that the executor walks."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from xla_server.buffers import code as thunks
from xla_server.buffers.assignment import Assignment, Location
from xla_server.buffers.slots import addressed, copies_nothing, is_given, label_positions, of_kind
from xla_server.codegen.kernel import Kernels, LoadedKernel
from xla_server.codegen.loops.builders.chunks import chunk_of
from xla_server.runtime import executor
from xla_server.runtime.copies import COPY_BYTES, copy_range
from xla_server.runtime.meetings import COUNT, GIVEN_WORDS, OF_RECORD, POSITION
from xla_server.target.loop_tuning import Chunks


@dataclasses.dataclass(frozen=True, slots=True)
class Encoded:
    """The tables that the executor walks.

    Slots are numbered addresses: first the cancellation flag, then all parameters, `results`,
    `constants` and last the values of the arena at their `offsets`. `indices` has the slot of
    every buffer of every kernel, one kernel after the other. `walked` is the code by the numbers
    that its rows have here, and `hosts` has what Python does and the row that follows.
    """

    rows: Any
    indices: Any
    targets: Any
    results: tuple[int, ...]
    constants: tuple[int, ...]
    offsets: Any
    kernels: tuple[LoadedKernel, ...]
    hosts: dict[int, tuple[thunks.HostThunk, int]]
    meetings: tuple[thunks.MeetThunk, ...]
    slots: dict[Location, int]
    walked: tuple[thunks.Row, ...]


def encode(code: thunks.Code, assignment: Assignment, kernels: Kernels) -> Encoded:
    """The tables of a program, whose kernels are compiled."""
    rows = [row for row in code.rows if not copies_nothing(row, assignment)]
    parameters = [Location("parameter", number) for number in range(len(code.parameters))]
    results = of_kind("result", assignment.results)
    named = [assignment.places[value] for row in rows for value in addressed(row)]
    constants = of_kind("constant", [*named, *assignment.results])
    arena = of_kind("arena", named)
    order = [_CANCELLATION_PLACE, *parameters, *results, *constants, *arena]
    slots = {place: number for number, place in enumerate(order)}
    compiled = kernels.get_all(row.kernel for row in rows if isinstance(row, thunks.KernelThunk))
    tables = _Tables(rows, assignment, slots, compiled, kernels, code.chunks)
    return Encoded(
        np.array(tables.rows, np.int64),
        np.array(tables.indices or [0], np.int64),
        np.array(tables.targets or [0], np.int64),
        tuple(place.number for place in results),
        tuple(place.number for place in constants),
        np.array([place.number for place in arena], np.int64),
        tuple(compiled.values()),
        tables.hosts,
        tuple(tables.meetings),
        slots,
        tuple(row for row in rows if not isinstance(row, thunks.Label)),
    )


_CANCELLATION_PLACE = Location("cancellation", 0)

_OF_RECORD = {thunks.POSITION: POSITION, thunks.GROUP_SIZE: COUNT}
"""The number in a meeting's record that is the argument of a kernel."""


class _Tables:
    """Rows of numbers, one for each row of the code but labels."""

    def __init__(
        self,
        rows: list[thunks.Row],
        assignment: Assignment,
        slots: dict[Location, int],
        compiled: dict[str, LoadedKernel],
        kernels: Kernels,
        chunks: Chunks,
    ) -> None:
        self._chunks = chunks
        self._assignment = assignment
        self._slots = slots
        self._compiled = compiled
        self._kernels = kernels
        self._labels = label_positions(rows)
        self.rows: list[list[int]] = []
        self.indices: list[int] = []
        self.targets: list[int] = []
        self.hosts: dict[int, tuple[thunks.HostThunk, int]] = {}
        self.meetings: list[thunks.MeetThunk] = []
        for row in rows:
            if not isinstance(row, thunks.Label):
                numbers = self._numbers(row)
                self.rows.append([*numbers, *[0] * (executor.ROW_WORDS - len(numbers))])
        self.rows.append([executor.END] * executor.ROW_WORDS)

    def _slot(self, value: thunks.Value) -> int:
        if is_given(value):
            return self._slots[_CANCELLATION_PLACE]
        return self._slots[self._assignment.places[value]]

    def _meeting(self, row: thunks.MeetThunk) -> int:
        """Write the words of a meeting, whose kernels are the next; where they begin."""
        operands, offsets = row.host.reads, row.offsets
        given: list[int] = []
        arguments = (value for kernel in row.kernels for value in kernel.arguments)
        for number, value in enumerate(arguments, len(self.indices)):
            if isinstance(value, thunks.Gathered):
                # The offset of operand 1 is the distance of equal ones.
                operand = 1 if value.operand == thunks.BY_POSITION else value.operand
                given += number, value.member, offsets[operand], value.operand
            elif value in _OF_RECORD:
                given += number, OF_RECORD, 8 * _OF_RECORD[value], 0
        first = len(self.targets)
        self.targets.append(len(operands))
        for value, offset in zip(operands, offsets, strict=False):
            self.targets += self._slot(value), value.byte_size, offset
        self.targets += len(given) // GIVEN_WORDS, *given
        return first

    def _loop(
        self, address: int, values: Iterable[thunks.Value], work_items: int, chunk: int
    ) -> list[int]:
        """The row that calls a kernel on these values."""
        first = len(self.indices)
        self.indices += map(self._slot, values)
        return [executor.KERNEL, address, first, work_items, chunk]

    def _numbers(self, row: thunks.Row) -> list[int]:
        match row:
            case thunks.KernelThunk():
                address = self._compiled[row.kernel.key].address
                chunk = chunk_of(row.work_items, row.work, row.prologue, self._chunks)
                return self._loop(address, row.arguments, row.work_items, chunk)
            case thunks.CopyThunk():
                size, places = row.target.byte_size, (row.target, row.source)
                if size > 2 * COPY_BYTES:
                    copier = self._kernels.native(copy_range)
                    return self._loop(copier, places, size, COPY_BYTES)
                return [executor.COPY, *map(self._slot, places), size]
            case thunks.Jump():
                return [executor.JUMP, self._labels[row.label]]
            case thunks.Branch():
                return [executor.BRANCH, self._slot(row.predicate), self._labels[row.otherwise]]
            case thunks.Switch():
                count, first = len(row.labels), len(self.targets)
                self.targets += [self._labels[label] for label in row.labels]
                return [executor.SWITCH, self._slot(row.index), count, first]
            case thunks.HostThunk():
                self.hosts[len(self.rows)] = row, len(self.rows) + 1
                return [executor.HOST]
            case thunks.MeetThunk():
                self.hosts[len(self.rows)] = row.host, self._labels[row.end]
                self.meetings.append(row)
                copier, way = self._kernels.native(copy_range), executor.COPIES
                if row.is_referenced:
                    way = executor.REFERS
                number, leaving = len(self.meetings) - 1, self._labels[row.end] - 1
                first = self._meeting(row)
                once = leaving if row.is_made_once else 0
                return [executor.MEET, number, first, copier, way, once]
            case thunks.LeaveThunk():
                first, number = len(self.targets), self.meetings.index(row.meeting)
                made = row.meeting.host.writes if row.meeting.is_made_once else ()
                self.targets.append(len(made))
                for value in made:
                    self.targets += self._slot(value), value.byte_size, 0
                self.targets.append(0)
                copier = self._kernels.native(copy_range)
                return [executor.MEET, number, first, copier, executor.LEAVES]
        raise AssertionError(row)
