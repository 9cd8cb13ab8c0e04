"""Encoding of code and its buffer assignment as the tables that the executor walks."""

from collections.abc import Iterable

import numpy as np

from xla_server.buffers import code as thunks
from xla_server.buffers.assignment import Assignment, Location
from xla_server.buffers.slots import addressed, copies_nothing, is_given, label_positions, of_kind
from xla_server.codegen.kernel import Kernels
from xla_server.codegen.schedules.builders.launches.chunks import chunk_of
from xla_server.runtime import executor
from xla_server.runtime.collective_records import COUNT, GIVEN_WORDS, OF_RECORD, POSITION
from xla_server.runtime.native import COPY_BYTES, copy_range

_CANCELLATION_LOCATION = Location("cancellation", 0)

_OF_RECORD = {thunks.POSITION: POSITION, thunks.GROUP_SIZE: COUNT}
"""Index, in a collective's record, of the number that a kernel reads as this argument."""


class Encoded:
    """The tables that the executor walks, made from a program with compiled kernels.

    Slots are numbered addresses: first the cancellation flag, then all parameters, `results`,
    `constants` and last the values of the arena at their `offsets`. `indices` has the slot of every
    buffer of every kernel, one kernel after the other. `walked` has the thunks in the order of the
    table's rows, without labels. `hosts` maps the row of a host thunk to that thunk and the row to
    resume at.
    """

    def __init__(self, code: thunks.Code, assignment: Assignment, kernels: Kernels) -> None:
        rows = [row for row in code.rows if not copies_nothing(row, assignment)]
        parameters = [Location("parameter", number) for number in range(len(code.parameters))]
        results = of_kind("result", assignment.results)
        named = [assignment.locations[value] for row in rows for value in addressed(row)]
        constants = of_kind("constant", [*named, *assignment.results])
        arena = of_kind("arena", named)
        order = [_CANCELLATION_LOCATION, *parameters, *results, *constants, *arena]
        self.slots = {location: number for number, location in enumerate(order)}
        self.results = tuple(location.number for location in results)
        self.constants = tuple(location.number for location in constants)
        self.offsets = np.array([location.number for location in arena], np.int64)
        self.walked = tuple(row for row in rows if not isinstance(row, thunks.Label))
        self.hosts: dict[int, tuple[thunks.HostThunk, int]] = {}
        self.collectives: list[thunks.CollectiveThunk] = []
        called = (row.kernel for row in rows if isinstance(row, thunks.KernelThunk))
        self.kernels = kernels.get_all(called)
        self._native = kernels.native
        self._chunks = code.chunks
        self._places = assignment.locations
        self._labels = label_positions(rows)
        self._indices: list[int] = []
        self._targets: list[int] = []
        table = []
        for at, row in enumerate(self.walked):
            numbers = self._numbers(at, row)
            table.append([*numbers, *[0] * (executor.ROW_WORDS - len(numbers))])
        table.append([executor.END] * executor.ROW_WORDS)
        self.rows = np.array(table, np.int64)
        self.indices = np.array(self._indices or [0], np.int64)
        self.targets = np.array(self._targets or [0], np.int64)

    def _slot(self, value: thunks.Value) -> int:
        if is_given(value):
            return self.slots[_CANCELLATION_LOCATION]
        return self.slots[self._places[value]]

    def _collective(self, row: thunks.CollectiveThunk) -> int:
        """Append the words of a collective to the targets; return the index of the first.

        `executor.MEET` has their layout. The collective's kernels must be encoded next: their
        arguments are referred to by index.
        """
        operands, offsets = row.host.reads, row.offsets
        given: list[int] = []
        arguments = (value for kernel in row.kernels for value in kernel.arguments)
        for number, value in enumerate(arguments, len(self._indices)):
            if isinstance(value, thunks.Gathered):
                # Operands that are selected by position have equal sizes, so the offset of operand
                # 1 is the distance between them.
                operand = 1 if value.operand == thunks.BY_POSITION else value.operand
                given += number, value.member, offsets[operand], value.operand
            elif value in _OF_RECORD:
                given += number, OF_RECORD, 8 * _OF_RECORD[value], 0
        first = len(self._targets)
        self._targets.append(len(operands))
        for value, offset in zip(operands, offsets, strict=False):
            self._targets += self._slot(value), value.byte_size, offset
        self._targets += len(given) // GIVEN_WORDS, *given
        return first

    def _loop(
        self, address: int, values: Iterable[thunks.Value], work_items: int, chunk: int
    ) -> list[int]:
        """Return the row that calls the kernel at `address` on these values."""
        first = len(self._indices)
        self._indices += map(self._slot, values)
        return [executor.KERNEL, address, first, work_items, chunk]

    def _numbers(self, at: int, row: thunks.Row) -> list[int]:
        match row:
            case thunks.KernelThunk():
                address = self.kernels[row.kernel.key].address
                chunk = chunk_of(row.work_items, row.work, row.prologue, self._chunks)
                return self._loop(address, row.arguments, row.work_items, chunk)
            case thunks.CopyThunk():
                size, operands = row.target.byte_size, (row.target, row.source)
                if size > 2 * COPY_BYTES:
                    copier = self._native(copy_range)
                    return self._loop(copier, operands, size, COPY_BYTES)
                return [executor.COPY, *map(self._slot, operands), size]
            case thunks.Jump():
                return [executor.JUMP, self._labels[row.label]]
            case thunks.Branch():
                return [executor.BRANCH, self._slot(row.predicate), self._labels[row.otherwise]]
            case thunks.Switch():
                count, first = len(row.labels), len(self._targets)
                self._targets += [self._labels[label] for label in row.labels]
                return [executor.SWITCH, self._slot(row.index), count, first]
            case thunks.HostThunk():
                self.hosts[at] = row, at + 1
                return [executor.HOST]
            case thunks.CollectiveThunk():
                self.hosts[at] = row.host, self._labels[row.end]
                self.collectives.append(row)
                copier, mode = self._native(copy_range), executor.COPIES
                if row.is_referenced:
                    mode = executor.REFERS
                number, leaving = len(self.collectives) - 1, self._labels[row.end] - 1
                first = self._collective(row)
                once = leaving if row.is_made_once else 0
                return [executor.MEET, number, first, copier, mode, once]
            case thunks.LeaveThunk():
                first, number = len(self._targets), self.collectives.index(row.collective)
                made = row.collective.host.writes if row.collective.is_made_once else ()
                self._targets.append(len(made))
                for value in made:
                    self._targets += self._slot(value), value.byte_size, 0
                self._targets.append(0)
                copier = self._native(copy_range)
                return [executor.MEET, number, first, copier, executor.LEAVES]
        raise AssertionError(row)
