"""The worker of a device as the platform uses it: memory, transfers and runs of programs.

Everything is thread-safe; a call waits for its own answer alone. If the worker is lost, calls in
flight and later uses of its values raise UnavailableError, with an incident; the next allocation or
run starts a new process.
"""

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from xla_contract.errors import ResourceExhaustedError, UnavailableError
from xla_server.backends.cuda.worker.exchange import messages, protocol
from xla_server.backends.cuda.worker.exchange.shared_memory import GO, STOP
from xla_server.backends.cuda.worker.supervisor import transfers
from xla_server.backends.cuda.worker.supervisor.generation import Connection, WorkerProcess
from xla_server.backends.cuda.worker.supervisor.launched_run import LaunchedRun
from xla_server.execution.cancellation import Cancellation
from xla_server.ops.evaluation import Array

_TIMEOUT = 10.0
"""Timeout for a worker to stop a run, or to end, in seconds."""


class DeviceWorker:
    """A device and its worker."""

    def __init__(self, ordinal: int, command: Sequence[str], timeout: float = _TIMEOUT) -> None:
        """Start the worker of a device by `command`, which gets the arguments of `child.py`.

        A worker has `timeout` seconds to stop a run. Raises NoDeviceError, with the reason.
        """
        self.ordinal, self._command, self._timeout = ordinal, tuple(command), timeout
        self._lock = threading.Lock()
        self._is_closed = False
        self._process = WorkerProcess(ordinal, self._command, 1)
        self.description: protocol.DeviceDescription = self._process.description
        """The device when the first worker opened it."""

    def placed(self, array: Array) -> "DeviceMemory":
        """Upload a dense row-major array; return its memory, freed with the last reference.

        It takes one request for a small array. Raises ResourceExhaustedError with the figures, with
        nothing changed, and UnavailableError.
        """
        data = transfers.inline(array)
        process = self.process()
        with _out_of_memory(self.ordinal), process.connection() as connection:
            address = connection.call(messages.Allocate(array.nbytes, data))
            memory = DeviceMemory(self, process, address, array.nbytes)
            if not data:
                transfers.upload(process, connection, address, array)
        return memory

    def download(self, memory: "DeviceMemory", array: Array) -> None:
        """Read a dense row-major array from the start of memory, once it is computed."""
        memory.check(array.nbytes)
        if memory.run is not None:
            memory.run.wait()
        with memory.process.connection() as connection:
            transfers.download(memory.process, connection, memory.address, array)

    def load(self, program: protocol.DeviceProgram) -> "LoadedDeviceProgram":
        """Load a program, which is unloaded with its last reference.

        Raises as `placed` does, and RequestError if the driver does not load it.
        """
        loaded = LoadedDeviceProgram(self, program, self._timeout)
        loaded.constants()
        return loaded

    def close(self) -> None:
        """End the process; nothing may be used afterwards."""
        with self._lock:
            self._is_closed = True
            self._process.close(self._timeout)

    def process(self) -> WorkerProcess:
        """Return the process, a new one if the last was lost."""
        with self._lock:
            process = self._process
            if process.loss is not None and not self._is_closed:
                try:
                    process = WorkerProcess(self.ordinal, self._command, process.number + 1)
                except protocol.NoDeviceError as error:
                    raise UnavailableError(
                        f"a lost worker of device {self.ordinal} must start again, got {error}"
                    ) from error
                self._process = process
        process.check()
        return process


class DeviceMemory:
    """An allocation of a device's memory, freed with its last reference.

    `run` is the last launched run that writes to it, or None.
    """

    __slots__ = ("address", "byte_size", "process", "run", "worker")

    def __init__(
        self,
        worker: DeviceWorker,
        process: WorkerProcess,
        address: int,
        byte_size: int,
        run: LaunchedRun | None = None,
    ) -> None:
        self.worker, self.process, self.run = worker, process, run
        self.address, self.byte_size = address, byte_size

    def check(self, byte_size: int = 0) -> None:
        """Raise UnavailableError if the memory is lost, ValueError for more bytes than it has."""
        self.process.check()
        if byte_size > self.byte_size:
            raise ValueError(f"a transfer must be within {self.byte_size} bytes, got {byte_size}")

    def __del__(self) -> None:
        free = self.process.freed.append if self.run is None else self.run.free
        free(self.address)


@dataclasses.dataclass(frozen=True, slots=True)
class HostAccess:
    """The values of a suspended run, by their slots, for the thread of the run."""

    _process: WorkerProcess
    _connection: Connection
    _addresses: Sequence[int]

    def read(self, slot: int, array: Array) -> None:
        """Read the value in a slot into a dense row-major array of its size."""
        transfers.download(self._process, self._connection, self._addresses[slot], array)

    def write(self, slot: int, array: Array) -> None:
        """Write a dense row-major array to the value in a slot, of the same size."""
        transfers.upload(self._process, self._connection, self._addresses[slot], array)


@dataclasses.dataclass(slots=True)
class _Loaded:
    """A program in one process."""

    process: WorkerProcess
    number: int
    constants: tuple[DeviceMemory, ...]

    def __del__(self) -> None:
        self.process.unloaded.append(self.number)


Launched: TypeAlias = Callable[[list[DeviceMemory], LaunchedRun], None]
"""Takes the results of a launched run."""


class LoadedDeviceProgram:
    """A program in a device's worker; it is loaded again if the worker was replaced."""

    def __init__(
        self, worker: DeviceWorker, program: protocol.DeviceProgram, timeout: float
    ) -> None:
        self._worker, self._program, self._timeout = worker, program, timeout
        self._lock = threading.Lock()
        self._loaded: _Loaded | None = None

    def constants(self) -> Sequence[DeviceMemory]:
        """Return the memory of the constants in the current worker, which must not be written."""
        return self._current().constants

    def run(
        self,
        parameters: Sequence[DeviceMemory],
        cancellation: Cancellation,
        step: Callable[[int, HostAccess], None],
        launched: Launched | None = None,
    ) -> tuple[list[DeviceMemory] | None, int]:
        """Run; return the memory of results that have their own, and the nanoseconds.

        `step` executes a step on the host. `launched`, if it is called, receives the results, which
        are not computed yet, and None is returned for them. Raises the cancellation's error once it
        is set, errors of `step` and `launched`, ResourceExhaustedError and UnavailableError.
        """
        loaded = self._current()
        addresses, after = _checked(parameters)
        request = messages.Run(loaded.number, addresses, after, launched is not None)
        run: LaunchedRun | None = None
        with (
            _out_of_memory(self._worker.ordinal),
            loaded.process.connection(cancellation) as connection,
            _Stop(loaded.process, connection, cancellation, self._timeout) as stop,
        ):
            outcome = stop.call(request)
            try:
                while not isinstance(outcome, protocol.Finished):
                    try:
                        if isinstance(outcome, protocol.Launched):
                            assert launched is not None, "a run is launched if it is asked to be"
                            run = LaunchedRun(outcome.run, loaded.process.freed)
                            launched(self._memory(loaded.process, outcome.results, run), run)
                        else:
                            cancellation.checkpoint()
                            access = HostAccess(loaded.process, connection, outcome.addresses)
                            step(outcome.step, access)
                    except BaseException:  # Also on an interrupt: the worker waits for an answer.
                        connection.settle()
                        stop.call(messages.Abandon())
                        raise
                    outcome = stop.call(messages.Resume())
            finally:
                if run is not None:
                    run.end()
            memory = None if run else self._memory(loaded.process, outcome.results)
        return memory, outcome.nanoseconds

    def _memory(
        self, process: WorkerProcess, addresses: Sequence[int], run: LaunchedRun | None = None
    ) -> list[DeviceMemory]:
        return [
            DeviceMemory(self._worker, process, address, size, run)
            for address, size in zip(addresses, self._program.results, strict=True)
        ]

    def _current(self) -> _Loaded:
        with self._lock:
            process = self._worker.process()
            if self._loaded is None or self._loaded.process is not process:
                self._loaded = self._load(process)
            return self._loaded

    def _load(self, process: WorkerProcess) -> _Loaded:
        arrays = [np.frombuffer(data, np.uint8) for data in self._program.constants]
        constants = list(map(self._worker.placed, arrays))
        program = dataclasses.replace(self._program, constants=())
        addresses = tuple(each.address for each in constants)
        with _out_of_memory(self._worker.ordinal), process.connection() as connection:
            number = connection.call(messages.Load(program, addresses))
            return _Loaded(process, number, tuple(constants))


@dataclasses.dataclass
class _Stop:
    """Forwards a cancellation to a run in a worker, and kills a worker that does not stop."""

    _process: WorkerProcess
    _connection: Connection
    _cancellation: Cancellation
    _timeout: float
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    _is_over: bool = False
    _is_waiting: bool = False
    _timer: threading.Timer | None = None

    def __enter__(self) -> "_Stop":
        self._process.shared.set_word(self._connection.index, GO)
        self._forget = self._cancellation.add_callback(self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        self._forget()
        with self._lock:
            self._is_over = True
            if self._timer is not None:
                self._timer.cancel()

    def call(self, body: messages.Body) -> Any:
        """Make a request that the worker answers soon after the cancellation."""
        self._is_waiting = True
        try:
            with self._cancellation.outside():
                return self._connection.call(body)
        except protocol.RunCancelledError:
            self._cancellation.check()
            raise
        finally:
            self._is_waiting = False

    def _stop(self) -> None:
        with self._lock:
            if not self._is_over:
                self._process.shared.set_word(self._connection.index, STOP)
                self._timer = threading.Timer(self._timeout, self._kill)
                self._timer.daemon = True
                self._timer.start()

    def _kill(self) -> None:
        with self._lock:
            hangs = self._is_waiting and not self._is_over
        if hangs:
            self._process.kill(f"it did not stop a run in {self._timeout} seconds")


def _checked(parameters: Sequence[DeviceMemory]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the addresses of parameters, and the numbers of unfinished runs that write them.

    Raises UnavailableError for lost ones.
    """
    runs: dict[int, None] = {}
    for each in parameters:
        each.check()
        if each.run is not None and not each.run.is_over:
            runs[each.run.number] = None
    return tuple([each.address for each in parameters]), tuple(runs)


@contextlib.contextmanager
def _out_of_memory(ordinal: int) -> Iterator[None]:
    """Raise the clients' error for a device without enough memory."""
    try:
        yield
    except protocol.OutOfDeviceMemoryError as error:
        raise ResourceExhaustedError(
            f"memory of device {ordinal} must suffice, got a request of {error.requested} bytes "
            f"with {error.free} free of {error.total}"
        ) from None
