"""A loaded program: its tables, kernels and constants, and idle runs for reuse."""

import dataclasses
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias

import numpy as np

from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.buffers.assignment import Assignment, MemoryUse, assign, memory_use
from xla_server.buffers.code import Code, CollectiveThunk, HostThunk, LeaveThunk, Value
from xla_server.buffers.work import ProgramWork
from xla_server.codegen.kernel import Kernels
from xla_server.codegen.lower.host import placed
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.collectives_protocol import (
    ALONE_RUN,
    CollectivePlan,
    Collectives,
    NativeCollective,
)
from xla_server.ops.elementwise.elementwise_op import CostClass
from xla_server.runtime import executor
from xla_server.runtime.blocks import BlockPool, MemoryBlock, block_size
from xla_server.runtime.collective_records import POLLS, meets_natively
from xla_server.runtime.encoding import Encoded
from xla_server.runtime.host import RunContext, arrays_of
from xla_server.runtime.threads import KernelThreads

Array = Any

_Views: TypeAlias = list[tuple[int, Callable[[int], Array]]]
"""For each value the index of its address in a run's words, and the function to its array."""

_HostThunk: TypeAlias = tuple[HostThunk, int, _Views, _Views]
"""A thunk of the host, the row to resume at, and the values that the thunk reads and writes."""

MAX_IDLE_RUNS = 16
"""Bound of idle runs that a program keeps for reuse; more executions at a time are rare."""

_ROW, _CYCLES, _FINISHED = executor.ROW, executor.CYCLES, executor.FINISHED
_INPUTS_OFFSET = 8 * executor.ROW
"""Offset in bytes of the words that each run sets: the row, then the first slots."""

MAX_TURN_BYTES = 1 << 24
"""Bytes that a program accesses, loops counted once, up to which its participants run round-robin
in one thread: waking a thread takes longer. The bound is multiplied by the participants for each
core, which would wait for each other anyway."""

MAX_TURN_FLOPS = CostClass.ACCESS * MAX_TURN_BYTES
"""The same bound in operations: additions that take as long as these accesses."""

_NUMBERS = {Opcode.REPLICA_ID: 0, Opcode.PARTITION_ID: 1}
"""Index of each number of a participant in its (replica, partition) position."""

MAX_IDLE_ARENA_BYTES = 1 << 16
"""Largest arena, in bytes, that an idle run keeps; larger ones return to the pool of blocks."""


class Program:
    """A loaded program. Thread-safe: runs may overlap, and each has its own arena."""

    def __init__(
        self,
        code: Code,
        assignment: Assignment,
        kernels: Kernels,
        threads: KernelThreads,
        blocks: BlockPool,
        work: ProgramWork | None = None,
        plan: CollectivePlan | None = None,
    ) -> None:
        self.code = code
        self._assignment = assignment
        self._kernels = kernels
        self._blocks = blocks
        self._threads = threads
        threads.start()
        self._walk = executor.walker(kernels)
        self._encoded = Encoded(code, assignment, kernels)
        self.thunks = self._encoded.walked
        """The thunks that are walked, in the order in which `ThunkTimes` numbers them."""
        self._hosts = {row: self._host_row(*each) for row, each in self._encoded.hosts.items()}
        collectives = self._encoded.collectives
        numbers = {thunk: n for n, thunk in enumerate(collectives)}
        self._collectives = {
            row: numbers[thunk.collective if isinstance(thunk, LeaveThunk) else thunk]
            for row, thunk in enumerate(self.thunks)
            if isinstance(thunk, LeaveThunk | CollectiveThunk)
        }
        """The number of the collective, by the row of its `CollectiveThunk` or `LeaveThunk`."""
        self.work = work
        """The static count of the code's operations; None if they were not counted."""
        self.plan = plan or self._planned(collectives)
        self.results = assignment.results
        """The memory of each result: a block of its own, or that of a parameter or a constant."""
        arrays = list(code.constants.values())
        self.constants = {n: _block_of(arrays[n], blocks) for n in self._encoded.constants}
        """The memory of the constants that a run reads, by their numbers."""
        results = self._encoded.results
        self._sizes = [(n, block_size(code.results[n].byte_size)) for n in results]
        self._arena_size = block_size(assignment.arena_bytes)
        self._inputs = struct.Struct(f"={2 + len(code.parameters) + len(results)}q")
        self._idle_runs: deque[_Run] = deque(maxlen=MAX_IDLE_RUNS)

    def with_donated(self, donated: frozenset[int]) -> "Program":
        """Return this program for runs that may overwrite the parameters with these numbers."""
        assignment = assign(self.code, donated)
        return Program(
            self.code,
            assignment,
            self._kernels,
            self._threads,
            self._blocks,
            self.work,
            self.plan,
        )

    @property
    def memory(self) -> MemoryUse:
        """The bytes that an execution needs, known when the program is compiled."""
        use = memory_use(self.code, self._assignment)
        return dataclasses.replace(use, arena=use.arena + self.plan.byte_size)

    def run(
        self, addresses: Sequence[int], device: object, context: RunContext
    ) -> tuple[dict[int, MemoryBlock], int]:
        """Run as documented in LoadedProgram.run. All devices are this processor."""
        options, collectives = context.options, context.options.collectives
        position = collectives.replica_id, collectives.partition_id
        run, results = self._begin(addresses, options.cancellation, position)
        return results, self._walked(run, context, collectives)

    def _walked(self, run: "_Run", context: RunContext, collectives: Collectives) -> int:
        """Run to the end and return the cycles that it took."""
        words, times = run.words, context.times
        if times is not None:
            words[executor.TIMES] = times.address
        if self._collectives:
            words[executor.POLLS] = POLLS
            words[executor.COLLECTIVES] = collectives.records(self.plan)
        self._walk(run.address, 0)
        if words[_ROW] != _FINISHED:
            self._finish(run, context, collectives)
        if times is not None:
            words[executor.TIMES] = 0
        return self._end(run)

    def run_round_robin(
        self,
        addresses: Sequence[Sequence[int]],
        cancellation: Cancellation,
        records: Sequence[int],
        grid: DeviceGrid,
    ) -> tuple[list[tuple[dict[int, MemoryBlock], int]], dict[int, int]]:
        """Return the result of `run` for each participant, all in one thread, and the blocked ones.

        `addresses` has each participant's arguments, in the order of `records`, the addresses of
        their records of collectives. The result maps each participant whose group never arrives
        to the number of the collective. If there are any, there are no results.
        """
        begun = [
            self._begin(each, cancellation, grid.position(number))
            for number, each in enumerate(addresses)
        ]
        for (run, _), address in zip(begun, records, strict=True):
            run.words[executor.POLLS] = -1
            run.words[executor.COLLECTIVES] = address
        group = np.array([run.address for run, _ in begun], np.int64)
        self._walk(group.ctypes.data, len(begun))
        outcomes = [run.words[_ROW] for run, _ in begun]
        if executor.CANCELLED in outcomes:
            cancellation.check()
        stuck = {
            number: self._collectives[executor.STUCK - outcome]
            for number, outcome in enumerate(outcomes)
            if outcome <= executor.STUCK
        }
        if stuck:
            return [], stuck
        return [(results, self._end(run)) for run, results in begun], stuck

    @property
    def round_robin(self) -> Self | None:
        """The program itself if it is small and needs the host for collectives alone, else None."""
        return self if self.plan.round_robin else None

    def _planned(self, collectives: Sequence[CollectiveThunk]) -> CollectivePlan:
        done = None if self.work is None else self.work.done
        each = max([1, *(len(thunk.placements) // self._threads.count for thunk in collectives)])
        is_small = (
            done is not None
            and done.bytes <= MAX_TURN_BYTES * each
            and done.cost.flops <= MAX_TURN_FLOPS * each
        )
        is_native = len(collectives) == len(self._hosts) > 0
        return CollectivePlan(list(map(_native, collectives)), round_robin=is_native and is_small)

    def _begin(
        self, addresses: Sequence[int], cancellation: Cancellation, position: tuple[int, int]
    ) -> tuple["_Run", dict[int, MemoryBlock]]:
        """Return a run on these arguments at a position of the grid, and its results' memory."""
        take = self._blocks.allocate
        try:
            run = self._idle_runs.pop()
        except IndexError:
            run = _Run(self._encoded, self.constants, self._threads.tasks)
        inputs = [0, cancellation.flag_address, *addresses]
        for opcode in self.code.numbers:
            inputs += [run.number(_NUMBERS[opcode], position)]
        results: dict[int, MemoryBlock] = {}
        for number, size in self._sizes:
            block = results[number] = take(size)
            inputs.append(block.address)
        if run.arena is None:
            run.use(take(self._arena_size))
        self._inputs.pack_into(run.memory, _INPUTS_OFFSET, *inputs)
        return run, results

    def _end(self, run: "_Run") -> int:
        """Keep a finished run for reuse, and return the cycles that it took."""
        cycles = run.words[_CYCLES]
        if self._arena_size > MAX_IDLE_ARENA_BYTES:
            run.arena = None
        self._idle_runs.append(run)
        return cycles

    def run_on_arrays(
        self, arrays: Sequence[Array], shapes: Sequence[Shape], device: object, context: RunContext
    ) -> tuple[list[Array], int]:
        """Run on dense row-major arrays, as documented in LoadedProgram.run_on_arrays."""
        addresses = [array.ctypes.data for array in arrays]
        options, collectives = context.options, context.options.collectives
        position = collectives.replica_id, collectives.partition_id
        run, blocks = self._begin(addresses, options.cancellation, position)
        cycles = self._walked(run, context, ALONE_RUN)
        results: list[Array] = []
        for location, shape in zip(self.results, shapes, strict=True):
            if location.kind == "parameter":
                results.append(arrays[location.number].reshape(shape.dimensions))
            else:
                owners = blocks if location.kind == "result" else self.constants
                results.append(owners[location.number].array(shape))
        return results, cycles

    @property
    def byte_size(self) -> int:
        """Bytes of the kernels' object code and of the constants."""
        code = sum(kernel.byte_size for kernel in self._encoded.kernels.values())
        return code + sum(value.byte_size for value in self.code.constants)

    def _finish(self, run: "_Run", context: RunContext, collectives: Collectives) -> None:
        """Execute thunks of the host, and resume the walk after each, to the end."""
        words, cancellation = run.words, context.options.cancellation
        while True:
            row = words[_ROW]
            if row == executor.CANCELLED:
                cancellation.check()
            if row < 0:
                return
            if cancellation.needs_checkpoint:
                cancellation.checkpoint()
            number = self._collectives.get(row)
            if number is not None and meets_natively(words[executor.COLLECTIVES], number):
                with placed(context.host, self.plan.collectives[number].instruction):
                    collectives.wait(number)
                self._walk(run.address, 0)
                continue
            thunk, resume_row, reads, writes = self._hosts[row]
            thunk.run(
                context.host,
                [at(words[slot]) for slot, at in reads],
                [at(words[slot]) for slot, at in writes],
            )
            words[_ROW] = resume_row
            self._walk(run.address, 0)

    def _host_row(self, thunk: HostThunk, resume_row: int) -> _HostThunk:
        return thunk, resume_row, self._views(thunk.reads), self._views(thunk.writes)

    def _views(self, values: Sequence[Value]) -> _Views:
        slots, locations = self._encoded.slots, self._assignment.locations
        return [(executor.SLOTS + slots[locations[v]], arrays_of(v.shape)) for v in values]


class _Run:
    """The words of one execution at a time, reused: constant ones are written once."""

    __slots__ = (
        "_array",
        "_base",
        "_first",
        "_numbers",
        "_offsets",
        "_tables",
        "address",
        "arena",
        "memory",
        "words",
    )

    def __init__(self, encoded: Encoded, constants: dict[int, MemoryBlock], tasks: int) -> None:
        self._tables = _zeros(len(encoded.indices))
        self._array = _zeros(executor.SLOTS + len(encoded.slots))
        self.address: int = self._array.ctypes.data
        self.words = memoryview(self._array)
        self.memory = self.words.cast("B")
        self.arena: MemoryBlock | None = None
        self._numbers = np.zeros(2, np.uint32)
        self._base = -1
        self._offsets = encoded.offsets
        self._first = len(self._array) - len(encoded.offsets)
        words = self._array
        words[executor.CODE] = encoded.table.ctypes.data
        words[executor.TABLES] = self._tables.ctypes.data
        words[executor.INDICES] = encoded.indices.ctypes.data
        words[executor.COUNT] = len(encoded.indices)
        words[executor.TARGETS] = encoded.targets.ctypes.data
        words[executor.TASKS] = tasks
        first = self._first - len(constants)
        words[first : self._first] = [block.address for block in constants.values()]

    def number(self, index: int, position: tuple[int, int]) -> int:
        """Set one of the participant's numbers, and return its address."""
        self._numbers[index] = position[index]
        address: int = self._numbers.ctypes.data
        return address + 4 * index

    def use(self, arena: MemoryBlock) -> None:
        """Use this memory as the arena of the run."""
        self.arena = arena
        if arena.address != self._base:
            self._base = arena.address
            self._array[self._first :] = self._offsets + arena.address


def _native(each: CollectiveThunk) -> NativeCollective:
    return NativeCollective(each.instruction, each.placements, each.offsets[-1], each.is_referenced)


def _zeros(count: int) -> Any:
    return np.zeros(count, np.int64)


def _block_of(array: Any, blocks: BlockPool) -> MemoryBlock:
    block = blocks.allocate(block_size(array.nbytes))
    np.asarray(block)[: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return block
