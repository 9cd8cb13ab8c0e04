"""Runs of programs on a device: their memory, and the walk over their rows.

Launches are asynchronous. A run waits for its stream where it reads a predicate, before a step of
the server, and at its end. It reads its cancellation word before each row. Work that a stream was
given cannot be taken back, so a program that is new, or whose last run took long, also waits after
each row: it stops within one, and an error is told with its row.
"""

import collections
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from xla_server.backends.cuda.worker.driver import CapturingDriver, Driver
from xla_server.backends.cuda.worker.graphs import Graphs, GraphsOfPrograms, has_graphs
from xla_server.backends.cuda.worker.protocol import (
    Branch,
    Copy,
    DeviceProgram,
    Finished,
    HostStep,
    Jump,
    Launch,
    LibraryCall,
    Outcome,
    RunCancelledError,
    Suspended,
    Switch,
)
from xla_server.backends.cuda.worker.shared_memory import SharedMemory

LONG_RUN_NANOSECONDS = 20_000_000
"""A program whose last run took longer waits after each row: that costs it under a thousandth."""

RECENT_LAUNCHES = 64
"""Launches that are told where the device is lost."""

_SHOWN = 200
"""Characters of a graph's symbols that are told."""

_runs = itertools.count(1)


class LoadedProgram:
    """A program whose kernels are loaded, with the addresses of its constants."""

    def __init__(self, driver: Driver, program: DeviceProgram, constants: Sequence[int]) -> None:
        self.program, self.constants = program, tuple(constants)
        symbols: dict[int, list[str]] = {}
        for kernel in program.kernels:
            symbols.setdefault(kernel.module, []).append(kernel.symbol)
        modules = {
            number: iter(driver.load(program.modules[number], names))
            for number, names in symbols.items()
        }
        self.kernels = [next(modules[kernel.module]) for kernel in program.kernels]
        plans = dict.fromkeys(row.plan for row in program.rows if isinstance(row, LibraryCall))
        self.plans: dict[Any, Any] = {plan: driver.prepare(plan) for plan in plans}
        self.has_graphs = has_graphs(program)
        self.text = ", ".join(dict.fromkeys(kernel.symbol for kernel in program.kernels))[:_SHOWN]
        self.nanoseconds = 0
        """The time of the last run that went to its end; 0 before the first."""


class Lane:
    """The stream, shared memory and graphs of a connection, for one run after the other."""

    def __init__(
        self,
        driver: Driver,
        stream: int,
        shared: SharedMemory,
        connection: int,
        recent: collections.deque[str],
    ) -> None:
        self.driver, self.stream, self.recent = driver, stream, recent
        self._shared, self._connection = shared, connection
        self._capturing = driver if isinstance(driver, CapturingDriver) else None
        self._graphs: GraphsOfPrograms = GraphsOfPrograms()

    def graphs(self, loaded: LoadedProgram) -> Graphs | None:
        """Return the graphs of a program in the stream; None if it or the device has none."""
        if not loaded.has_graphs or self._capturing is None:
            return None
        found = self._graphs.get(loaded)
        if found is None:
            found = self._graphs[loaded] = Graphs(self._capturing, self.stream)
        return found

    def check(self) -> None:
        """Raise RunCancelledError if the run must stop."""
        if self._shared.is_stopped(self._connection):
            raise RunCancelledError("the run was cancelled")

    def read(self, address: int, byte_size: int) -> memoryview:
        """Wait for a value of the device and return it, until the next is read."""
        room = self._shared.predicate(self._connection, byte_size)
        self.driver.download(room, address, self.stream)
        self.driver.synchronise(self.stream)
        return room


class ProgramRun:
    """One run of a program in a stream. For one thread.

    It owns its arena and, until it is finished, its results. A method that raises has freed them.
    """

    def __init__(self, lane: Lane, loaded: LoadedProgram, parameters: Sequence[int]) -> None:
        self._lane, self._loaded = lane, loaded
        self._driver, self._stream = lane.driver, lane.stream
        self._number, self._row = next(_runs), 0
        self._begin = time.perf_counter_ns()
        self._waits = not 0 < loaded.nanoseconds < LONG_RUN_NANOSECONDS
        self._owned: list[int] = []
        program = loaded.program
        if len(parameters) != program.parameter_count:
            raise ValueError(
                f"a run must have {program.parameter_count} parameters, got {len(parameters)}"
            )
        try:
            arena = self._allocate(program.arena_bytes) if program.arena_bytes else 0
            self._results = tuple(self._allocate(size) for size in program.results)
        except BaseException:
            self._free(self._owned)
            raise
        self._addresses = (
            *parameters,
            *self._results,
            *loaded.constants,
            *(arena + offset for offset in program.arena_offsets),
        )

    def go_on(self) -> Outcome:
        """Walk to the next step of the server or to the end. Raises RunCancelledError."""
        try:
            step = None if self._is_replayed() else self._walked()
            self._driver.synchronise(self._stream)
            if step is not None:
                return Suspended(self._number, step.number, self._addresses)
            self._free([each for each in self._owned if each not in self._results])
        except BaseException:
            self.abandon()
            raise
        self._owned = []
        taken = time.perf_counter_ns() - self._begin
        self._loaded.nanoseconds = taken
        return Finished(self._results, taken)

    def abandon(self) -> None:
        """End the run: wait for what its stream was given, which may use memory of others."""
        self._driver.synchronise(self._stream)
        self._free(self._owned)

    def _is_replayed(self) -> bool:
        """Launch all rows as one graph, if there is one for the run's addresses."""
        if self._row or self._waits:
            return False
        self._lane.check()
        graphs = self._lane.graphs(self._loaded)
        if graphs is None or not graphs.launch(self._addresses, self._walk_all):
            return False
        self._lane.recent.append(f"graph of {self._loaded.text}")
        return True

    def _walk_all(self) -> None:
        for row in self._loaded.program.rows:
            _DO[type(row)](self, row)

    def _walked(self) -> HostStep | None:
        """Walk the rows to the next step of the server; None at the end."""
        rows = self._loaded.program.rows
        while self._row < len(rows):
            self._lane.check()
            row = rows[self._row]
            self._row += 1
            if isinstance(row, HostStep):
                return row
            _DO[type(row)](self, row)
            if self._waits:
                self._driver.synchronise(self._stream)
        return None

    def _launch(self, row: Launch) -> None:
        kernel = self._loaded.program.kernels[row.kernel]
        self._lane.recent.append(kernel.symbol)
        self._driver.launch(
            self._loaded.kernels[row.kernel],
            kernel.blocks,
            kernel.threads,
            kernel.shared_bytes,
            [self._addresses[slot] for slot in row.slots],
            self._stream,
        )

    def _call(self, row: LibraryCall) -> None:
        self._lane.recent.append(type(row.plan).__name__)
        addresses = [self._addresses[slot] for slot in row.slots]
        self._driver.call(self._loaded.plans[row.plan], addresses, self._stream)

    def _copy(self, row: Copy) -> None:
        target, source = self._addresses[row.target], self._addresses[row.source]
        if row.byte_size and target != source:
            self._driver.copy(target, source, row.byte_size, self._stream)

    def _jump(self, row: Jump) -> None:
        self._row = row.row

    def _branch(self, row: Branch) -> None:
        if not self._lane.read(self._addresses[row.predicate], 1)[0]:
            self._row = row.otherwise

    def _switch(self, row: Switch) -> None:
        room = self._lane.read(self._addresses[row.index], 4)
        index = int.from_bytes(room, "little", signed=True)
        self._row = row.rows[index if 0 <= index < len(row.rows) else -1]

    def _allocate(self, byte_size: int) -> int:
        address = self._driver.allocate(max(byte_size, 1), self._stream)
        self._owned.append(address)
        return address

    def _free(self, addresses: Sequence[int]) -> None:
        for address in addresses:
            self._driver.free(address, self._stream)
        self._owned = []


_DO: Mapping[type, Callable[[ProgramRun, Any], None]] = MappingProxyType(
    {
        Launch: ProgramRun._launch,
        LibraryCall: ProgramRun._call,
        Copy: ProgramRun._copy,
        Jump: ProgramRun._jump,
        Branch: ProgramRun._branch,
        Switch: ProgramRun._switch,
    }
)
