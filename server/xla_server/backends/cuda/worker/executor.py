"""Runs of programs on a device: their memory, and the walk over their thunks.

Launches are asynchronous. A run synchronises its stream when it reads a predicate, before a step of
the server, and at its end. It polls its cancellation flag before each thunk and after a wait. A
loop in a graph polls it in each iteration, and a long kernel while it runs. Enqueued work cannot be
cancelled. So the times of new thunks are measured, with a wait after each, and a run waits once it
has enqueued too much. Errors of thunks name them.

A run may be launched: its results are given away before its last wait. Runs that have them as
parameters are enqueued at once, and their streams wait for its stream. Work that polls its own
run's flag would hold up the end of those others, so a run that has enqueued such work is not
launched. The bound of enqueued work counts what a run's stream waits for.
"""

import collections
import functools
import itertools
import time
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from xla_server.backends.cuda.worker.device.driver import Driver
from xla_server.backends.cuda.worker.exchange import protocol
from xla_server.backends.cuda.worker.exchange.shared_memory import SharedMemory
from xla_server.backends.cuda.worker.graphs import Graphs
from xla_server.backends.cuda.worker.loaded import WorkerProgram
from xla_server.backends.cuda.worker.segments import Segment, slots_of
from xla_server.backends.cuda.worker.thunk_work import ThunkWork

MAX_PENDING_NANOSECONDS = 20_000_000
"""Bound of work that is enqueued before a wait, in nanoseconds: a cancelled run ends within it.

The wait takes less than a thousandth of that time.
"""

MAX_PROGRAMS = 64
"""Most programs with graphs in one stream; the least recently run loses its own."""

RECENT_LAUNCHES = 64
"""Number of last launches that the error of a lost device lists."""

_runs = itertools.count(1)


class LaunchedWork(NamedTuple):
    """The enqueued work of a launched run: its event, and its time in nanoseconds."""

    event: Any
    nanoseconds: int


class OwnedDevice:
    """State that connections share: the driver, the programs, the last launches.

    `launched` has the work of launched runs that may not be done, by their numbers.
    """

    def __init__(self, driver: Driver, shared: SharedMemory) -> None:
        self.driver, self.shared = driver, shared
        self.programs: dict[int, WorkerProgram] = {}
        self.numbers = itertools.count(1)
        self.launched: dict[int, LaunchedWork] = {}
        self.recent: collections.deque[str] = collections.deque(maxlen=RECENT_LAUNCHES)


class Lane:
    """The stream, shared memory and graphs of a connection, for one run after the other."""

    def __init__(self, device: OwnedDevice, stream: int, connection: int) -> None:
        self.driver, self.stream = device.driver, stream
        self.recent, self.launched = device.recent, device.launched
        self._shared, self._connection = device.shared, connection
        self._graphs: weakref.WeakKeyDictionary[WorkerProgram, Graphs]
        self._graphs = weakref.WeakKeyDictionary()
        self.word = device.shared.word(connection)
        """The device address of the cancellation flag; zero if the device cannot read it.

        Graphs have no loops then, as nothing could stop them.
        """

    @functools.cached_property
    def flag(self) -> int:
        """The address of the cancellation flag for kernels; a constant GO if `word` is zero."""
        if self.word:
            return self.word
        address = self.driver.allocate(8, self.stream)
        self.driver.upload(address, memoryview(bytes(8)), self.stream)
        self.driver.synchronise(self.stream)
        return address

    def graphs(self, loaded: WorkerProgram) -> Graphs | None:
        """Return the graphs of a program in the stream; None if it has none."""
        if not loaded.segments:
            return None
        found = self._graphs.pop(loaded, None) or Graphs(self.driver, self.stream)
        self._graphs[loaded] = found
        if len(self._graphs) > MAX_PROGRAMS:
            del self._graphs[next(iter(self._graphs))]
        return found

    def check(self) -> None:
        """Raise RunCancelledError if the run must stop."""
        if self._shared.is_stopped(self._connection):
            raise protocol.RunCancelledError("the run was cancelled")

    def read(self, address: int, byte_size: int) -> memoryview:
        """Read a value of the device; it is valid until the next call."""
        predicate = self._shared.predicate(self._connection, byte_size)
        self.driver.download(predicate, address, self.stream)
        self.driver.synchronise(self.stream)
        return predicate


class ProgramRun:
    """One run of a program in a stream. For one thread.

    It owns its arena and, until it is finished or launched, its results. A method that raises has
    freed what it owned. Its work begins after that of the launched runs with the numbers `after`.
    """

    def __init__(
        self,
        lane: Lane,
        loaded: WorkerProgram,
        parameters: Sequence[int],
        after: Iterable[int] = (),
        *,
        is_launched: bool = False,
    ) -> None:
        self._lane, self._loaded = lane, loaded
        self._driver, self._stream = lane.driver, lane.stream
        self._number, self._position = next(_runs), 0
        self._begin = time.perf_counter_ns()
        self._pending = 0
        self._may_be_long = False
        """True if work is enqueued whose time is unknown: it polls the run's flag."""
        self._may_be_launched = is_launched
        self._owned: list[int] = []
        program = loaded.program
        if len(parameters) != program.parameter_count:
            raise ValueError(
                f"a run must have {program.parameter_count} parameters, got {len(parameters)}"
            )
        flag = lane.flag
        try:
            self._wait_for(after)
            arena = self._allocate(program.arena_bytes) if program.arena_bytes else 0
            self._results = tuple(self._allocate(size) for size in program.results)
        except BaseException:  # Only this run can free the memory, whatever was raised.
            self._free(self._owned)
            raise
        self._addresses = (
            *parameters,
            *self._results,
            *loaded.constants,
            *(arena + offset for offset in program.arena_offsets),
            flag,
        )
        self._work = ThunkWork(lane.driver, loaded, self._addresses, lane.word)
        self._graphs = lane.graphs(loaded)

    def go_on(self) -> protocol.Outcome:
        """Walk to the next step of the server or to the end. Raises RunCancelledError."""
        try:
            step = self._walked()
            is_pending = self._pending and not self._may_be_long
            if step is None and self._may_be_launched and is_pending:
                return self._launch()
            self._wait()
            # A loop that was stopped leaves invalid values.
            self._lane.check()
            if step is not None:
                return protocol.Suspended(self._number, step.number, self._addresses)
            results = self._released_results()
            self._free(self._owned)
        except BaseException:  # The same, and the stream may still use it.
            self.abandon()
            raise
        self._lane.launched.pop(self._number, None)
        return protocol.Finished(results, time.perf_counter_ns() - self._begin)

    def abandon(self) -> None:
        """End the run: wait for its stream, whose work may use others' memory, and free its own."""
        self._driver.synchronise(self._stream)
        self._lane.launched.pop(self._number, None)
        self._free(self._owned)

    def _launch(self) -> protocol.Launched:
        """Give the results away; the next `go_on` waits for them."""
        self._may_be_launched = False
        event = self._driver.record(self._stream)
        self._lane.launched[self._number] = LaunchedWork(event, self._pending)
        return protocol.Launched(self._number, self._released_results())

    def _released_results(self) -> tuple[int, ...]:
        """Return the results that the run owns, and own them no more."""
        results, self._results = self._results, ()
        given = set(results)
        self._owned = [each for each in self._owned if each not in given]
        return results

    def _wait_for(self, after: Iterable[int]) -> None:
        """Let the stream wait for launched runs; their work counts as enqueued by this one."""
        for number in after:
            work = self._lane.launched.get(number)
            if work is not None:
                self._driver.wait_for(work.event, self._stream)
                self._add(work.nanoseconds)

    def _walked(self) -> protocol.HostStep | None:
        """Walk the thunks to the next step of the server; None at the end."""
        thunks = self._loaded.program.thunks
        while self._position < len(thunks):
            self._lane.check()
            first = self._position
            segments = self._loaded.segments.get(first, ())
            launched = next(filter(self._is_launched, segments), None)
            if launched is not None:
                self._position = launched.end
                continue
            thunk = thunks[first]
            self._position = first + 1
            match thunk:
                case protocol.HostStep():
                    return thunk
                case protocol.Jump():
                    self._position = thunk.target
                case protocol.Branch():
                    if not self._read(thunk.predicate, 1)[0]:
                        self._position = thunk.otherwise
                case protocol.Switch():
                    index = int.from_bytes(self._read(thunk.index, 4), "little", signed=True)
                    self._position = thunk.targets[index if 0 <= index < len(thunk.targets) else -1]
                case _:
                    self._enqueue(first, thunk)
        return None

    def _is_launched(self, segment: Segment) -> bool:
        """Launch a segment as a graph, if there is one for the run's addresses."""
        cost = self._loaded.nanoseconds(segment.first, segment.end)
        if cost is None or cost > MAX_PENDING_NANOSECONDS or self._graphs is None:
            return False
        if segment.has_jumps and not self._lane.word:
            return False
        addresses = tuple([self._addresses[slot] for slot in self._loaded.slots[segment]])
        walk = functools.partial(self._work.captured, segment, self._stream)
        changes = functools.partial(self._work.changes, segment)
        if not self._graphs.launch(segment, addresses, walk, changes):
            return False
        self._lane.recent.append(f"graph of {self._loaded.launches[segment]}")
        self._may_be_long |= segment.has_jumps or self._polls(self._loaded.slots[segment])
        self._add(cost)
        return True

    def _polls(self, slots: Sequence[int]) -> bool:
        """Return whether work that uses these slots polls the run's flag, which is the last."""
        return len(self._addresses) - 1 in slots

    def _enqueue(self, number: int, thunk: protocol.DeviceThunk) -> None:
        """Enqueue a thunk; measure it, with a wait, if its time is unknown."""
        name = self._loaded.name(thunk)
        if name:
            self._lane.recent.append(name)
        cost = self._loaded.nanoseconds(number, number + 1)
        if cost is not None:
            self._do(thunk)
            self._may_be_long |= self._polls(slots_of(thunk))
            self._add(cost)
            return
        self._wait()
        begin = time.perf_counter_ns()
        self._do(thunk)
        self._wait()
        # The time of a kernel that was stopped is not its usual time.
        self._lane.check()
        self._loaded.measure(number, time.perf_counter_ns() - begin)

    def _add(self, nanoseconds: int) -> None:
        self._pending += nanoseconds
        if self._pending > MAX_PENDING_NANOSECONDS:
            self._wait()

    def _wait(self) -> None:
        self._driver.synchronise(self._stream)
        self._pending, self._may_be_long = 0, False

    def _read(self, slot: int, byte_size: int) -> memoryview:
        found = self._lane.read(self._addresses[slot], byte_size)
        self._pending, self._may_be_long = 0, False
        return found

    def _do(self, thunk: protocol.DeviceThunk) -> None:
        """Enqueue the work of a thunk."""
        work = self._work.of(thunk)
        if work is not None:
            self._driver.enqueue(work, self._stream)

    def _allocate(self, byte_size: int) -> int:
        address = self._driver.allocate(max(byte_size, 1), self._stream)
        self._owned.append(address)
        return address

    def _free(self, addresses: Sequence[int]) -> None:
        for address in addresses:
            self._driver.free(address, self._stream)
        self._owned = []
