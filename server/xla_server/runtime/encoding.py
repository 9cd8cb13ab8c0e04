"""Encoding of code and its buffer assignment as the tables that the executor walks."""

from collections.abc import Iterable

import numpy as np

from xla_server.buffers import code as thunk_ir
from xla_server.buffers.assignment import Assignment, Location
from xla_server.buffers.slots import addressed, copies_nothing, is_given, label_positions, of_kind
from xla_server.codegen.kernel import Kernels
from xla_server.codegen.schedules.builders.launches.chunks import chunk_of
from xla_server.runtime import executor
from xla_server.runtime.collective_records import COUNT, GIVEN_WORDS, OF_RECORD, POSITION
from xla_server.runtime.native import COPY_BYTES, copy_range

_CANCELLATION_LOCATION = Location("cancellation", 0)

_OF_RECORD = {thunk_ir.POSITION: POSITION, thunk_ir.GROUP_SIZE: COUNT}
"""Index, in a collective's record, of the number that a kernel reads as this argument."""


class Encoded:
    """The tables that the executor walks, made from a program with compiled kernels.

    Slots are numbered addresses: first the cancellation flag, then all parameters, `results`,
    `constants` and last the values of the arena at their `offsets`. `indices` has the slot of every
    buffer of every kernel, one kernel after the other. `walked` has the thunks in the order of the
    table's rows, without labels. `hosts` maps the row of a host thunk to that thunk and the row
    to resume at.
    """

    def __init__(self, code: thunk_ir.Code, assignment: Assignment, kernels: Kernels) -> None:
        thunks = [thunk for thunk in code.thunks if not copies_nothing(thunk, assignment)]
        parameters = [Location("parameter", number) for number in range(len(code.parameters))]
        results = of_kind("result", assignment.results)
        named = [assignment.locations[value] for thunk in thunks for value in addressed(thunk)]
        constants = of_kind("constant", [*named, *assignment.results])
        arena = of_kind("arena", named)
        order = [_CANCELLATION_LOCATION, *parameters, *results, *constants, *arena]
        self.slots = {location: number for number, location in enumerate(order)}
        self.results = tuple(location.number for location in results)
        self.constants = tuple(location.number for location in constants)
        self.offsets = np.array([location.number for location in arena], np.int64)
        self.walked = tuple(thunk for thunk in thunks if not isinstance(thunk, thunk_ir.Label))
        self.hosts: dict[int, tuple[thunk_ir.HostThunk, int]] = {}
        self.collectives: list[thunk_ir.CollectiveThunk] = []
        called = (thunk.kernel for thunk in thunks if isinstance(thunk, thunk_ir.KernelThunk))
        self.kernels = kernels.get_all(called)
        self._native = kernels.native
        self._chunks = code.chunks
        self._locations = assignment.locations
        self._labels = label_positions(thunks)
        self._indices: list[int] = []
        self._targets: list[int] = []
        table = []
        for at, thunk in enumerate(self.walked):
            numbers = self._numbers(at, thunk)
            table.append([*numbers, *[0] * (executor.ROW_WORDS - len(numbers))])
        table.append([executor.END] * executor.ROW_WORDS)
        self.table = np.array(table, np.int64)
        self.indices = np.array(self._indices or [0], np.int64)
        self.targets = np.array(self._targets or [0], np.int64)

    def _slot(self, value: thunk_ir.Value) -> int:
        if is_given(value):
            return self.slots[_CANCELLATION_LOCATION]
        return self.slots[self._locations[value]]

    def _collective(self, thunk: thunk_ir.CollectiveThunk) -> int:
        """Append the words of a collective to the targets; return the index of the first.

        `executor.MEET` has their layout. The collective's kernels must be encoded next: their
        arguments are referred to by index.
        """
        operands, offsets = thunk.host.reads, thunk.offsets
        given: list[int] = []
        arguments = (value for kernel in thunk.kernels for value in kernel.arguments)
        for number, value in enumerate(arguments, len(self._indices)):
            if isinstance(value, thunk_ir.Gathered):
                # Operands that are selected by position have equal sizes, so the offset of operand
                # 1 is the distance between them.
                operand = 1 if value.operand == thunk_ir.BY_POSITION else value.operand
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
        self, address: int, values: Iterable[thunk_ir.Value], work_items: int, chunk: int
    ) -> list[int]:
        """Return the row that calls the kernel at `address` on these values."""
        first = len(self._indices)
        self._indices += map(self._slot, values)
        return [executor.KERNEL, address, first, work_items, chunk]

    def _numbers(self, at: int, thunk: thunk_ir.Thunk) -> list[int]:
        match thunk:
            case thunk_ir.KernelThunk():
                address = self.kernels[thunk.kernel.key].address
                chunk = chunk_of(thunk.work_items, thunk.work, thunk.prologue, self._chunks)
                return self._loop(address, thunk.arguments, thunk.work_items, chunk)
            case thunk_ir.CopyThunk():
                size, operands = thunk.target.byte_size, (thunk.target, thunk.source)
                if size > 2 * COPY_BYTES:
                    copier = self._native(copy_range)
                    return self._loop(copier, operands, size, COPY_BYTES)
                return [executor.COPY, *map(self._slot, operands), size]
            case thunk_ir.Jump():
                return [executor.JUMP, self._labels[thunk.label]]
            case thunk_ir.Branch():
                return [executor.BRANCH, self._slot(thunk.predicate), self._labels[thunk.otherwise]]
            case thunk_ir.Switch():
                count, first = len(thunk.labels), len(self._targets)
                self._targets += [self._labels[label] for label in thunk.labels]
                return [executor.SWITCH, self._slot(thunk.index), count, first]
            case thunk_ir.HostThunk():
                self.hosts[at] = thunk, at + 1
                return [executor.HOST]
            case thunk_ir.CollectiveThunk():
                self.hosts[at] = thunk.host, self._labels[thunk.end]
                self.collectives.append(thunk)
                copier, mode = self._native(copy_range), executor.COPIES
                if thunk.is_referenced:
                    mode = executor.REFERS
                number, leaving = len(self.collectives) - 1, self._labels[thunk.end] - 1
                first = self._collective(thunk)
                once = leaving if thunk.is_made_once else 0
                return [executor.MEET, number, first, copier, mode, once]
            case thunk_ir.LeaveThunk():
                first, number = len(self._targets), self.collectives.index(thunk.collective)
                made = thunk.collective.host.writes if thunk.collective.is_made_once else ()
                self._targets.append(len(made))
                for value in made:
                    self._targets += self._slot(value), value.byte_size, 0
                self._targets.append(0)
                copier = self._native(copy_range)
                return [executor.MEET, number, first, copier, executor.LEAVES]
        raise AssertionError(thunk)
