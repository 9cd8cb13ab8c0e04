"""Runs of programs on a device: their memory, and the walk over their rows.

Launches are asynchronous. A run waits for its stream where it reads a predicate, before a step of
the server, and at its end. It reads its cancellation word before each row; as nothing takes back
what a stream was given, a program whose last run took long also waits after each row, so that it
stops within one.
"""

import collections
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

from xla_server.backends.cuda.worker.driver import Driver
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
        self.nanoseconds = 0
        """The time of the last run that went to its end."""


class ProgramRun:
    """One run of a program in a stream. For one thread.

    It owns its arena and, until it is finished, its results. A method that raises has freed them.
    """

    def __init__(
        self,
        driver: Driver,
        loaded: LoadedProgram,
        parameters: Sequence[int],
        stream: int,
        shared: SharedMemory,
        connection: int,
        recent: collections.deque[str],
    ) -> None:
        self._driver, self._loaded, self._stream = driver, loaded, stream
        self._shared, self._connection, self._recent = shared, connection, recent
        self._number, self._row = next(_runs), 0
        self._begin = time.perf_counter_ns()
        self._waits = loaded.nanoseconds > LONG_RUN_NANOSECONDS
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
        self._does: dict[type, Callable[[Any], None]] = {
            Launch: self._launch,
            LibraryCall: self._call,
            Copy: self._copy,
            Jump: self._jump,
            Branch: self._branch,
            Switch: self._switch,
        }

    def go_on(self) -> Outcome:
        """Walk to the next step of the server or to the end. Raises RunCancelledError."""
        try:
            step = self._walked()
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

    def _walked(self) -> HostStep | None:
        """Walk the rows to the next step of the server; None at the end."""
        rows = self._loaded.program.rows
        while self._row < len(rows):
            if self._shared.is_stopped(self._connection):
                raise RunCancelledError("the run was cancelled")
            row = rows[self._row]
            self._row += 1
            if isinstance(row, HostStep):
                return row
            self._does[type(row)](row)
            if self._waits:
                self._driver.synchronise(self._stream)
        return None

    def _launch(self, row: Launch) -> None:
        kernel = self._loaded.program.kernels[row.kernel]
        self._recent.append(kernel.symbol)
        self._driver.launch(
            self._loaded.kernels[row.kernel],
            kernel.blocks,
            kernel.threads,
            kernel.shared_bytes,
            [self._addresses[slot] for slot in row.slots],
            self._stream,
        )

    def _call(self, row: LibraryCall) -> None:
        self._recent.append(type(row.plan).__name__)
        addresses = [self._addresses[slot] for slot in row.slots]
        self._driver.call(self._loaded.plans[row.plan], addresses, self._stream)

    def _copy(self, row: Copy) -> None:
        target, source = self._addresses[row.target], self._addresses[row.source]
        if row.byte_size and target != source:
            self._driver.copy(target, source, row.byte_size, self._stream)

    def _jump(self, row: Jump) -> None:
        self._row = row.row

    def _branch(self, row: Branch) -> None:
        if not self._read(row.predicate, 1)[0]:
            self._row = row.otherwise

    def _switch(self, row: Switch) -> None:
        index = int.from_bytes(self._read(row.index, 4), "little", signed=True)
        self._row = row.rows[index if 0 <= index < len(row.rows) else -1]

    def _read(self, slot: int, byte_size: int) -> memoryview:
        room = self._shared.predicate(self._connection, byte_size)
        self._driver.download(room, self._addresses[slot], self._stream)
        self._driver.synchronise(self._stream)
        return room

    def _allocate(self, byte_size: int) -> int:
        address = self._driver.allocate(max(byte_size, 1), self._stream)
        self._owned.append(address)
        return address

    def _free(self, addresses: Sequence[int]) -> None:
        for address in addresses:
            self._driver.free(address, self._stream)
        self._owned = []
