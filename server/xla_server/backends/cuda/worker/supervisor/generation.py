"""The server's end of one worker process: its connections, and the errors after its loss.

A generation is one process. Addresses and programs are valid in one; the next starts empty.
"""

import collections
import contextlib
import dataclasses
import io
import logging
import os
import pickle
import queue
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xla_contract.errors import UnavailableError
from xla_server.backends.cuda.worker.exchange import messages
from xla_server.backends.cuda.worker.exchange.protocol import DeviceDescription, NoDeviceError
from xla_server.backends.cuda.worker.exchange.shared_memory import (
    BLOCK_OFFSETS,
    MAX_CONNECTIONS,
    STOP,
    SharedMemory,
    new_shared_memory,
)
from xla_server.backends.diagnostics.incidents import new_incident
from xla_server.execution.cancellation import Cancellation

_LOG = logging.getLogger(__name__)

MAX_RUNS = 96
"""Most concurrent runs on a device; others wait."""

MAX_CALLS = 16
"""Most other concurrent requests; they never wait for a run, so each of them ends."""

_START_TIMEOUT = 120.0
"""Timeout for a worker to open its device, in seconds."""

_EXIT_TIMEOUT = 5.0
"""Timeout for a process to end once its connections are closed, in seconds."""

_SHOWN = 4000
"""Bytes of a worker's last output that the log shows."""

assert MAX_RUNS + MAX_CALLS <= MAX_CONNECTIONS


class Limit:
    """A counting semaphore whose wait can be cancelled."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def acquired(self, cancellation: Cancellation | None = None) -> Iterator[None]:
        """Hold one unit during the block. Raises the cancellation's error."""
        with self._changed:
            if not self._free:
                self._wait(cancellation or Cancellation())
            self._free -= 1
        try:
            yield
        finally:
            with self._changed:
                self._free += 1
                self._changed.notify()

    def _wait(self, cancellation: Cancellation) -> None:
        """Wait for a free unit. Under the lock, which the callback may take again."""
        with cancellation.calling(self._wake):
            while not self._free:
                cancellation.check()
                self._changed.wait()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


class Connection:
    """The server's end of a connection, for one thread at a time."""

    def __init__(self, process: "WorkerProcess", channel: socket.socket, index: int) -> None:
        self._process, self._channel, self.index = process, channel, index
        self._reader = messages.Reader(channel)
        self.pending = 0
        """Requests without an answer."""
        self.is_broken = False
        """True once a message was not sent or received to its end."""

    def call(self, body: messages.Body) -> Any:
        """Make a request and return its answer.

        Raises UnavailableError if the worker is lost, and errors that the worker returns.
        """
        self.send(body)
        return self.receive()

    def send(self, body: messages.Body) -> None:
        """Make a request, whose answer `receive` returns."""
        # In the busy stream of a launched run freed memory would not be kept for the next run.
        is_resumed = isinstance(body, messages.Resume)
        request = messages.Request(body, *(((), ()) if is_resumed else self._process.released()))
        self.is_broken = True
        try:
            messages.send(self._channel, request)
        except OSError as error:
            raise self._process.lost(f"a request was not sent: {error}") from None
        self.pending += 1
        self.is_broken = False

    def receive(self) -> Any:
        """Return the answer of the oldest request without one."""
        self.is_broken = True
        try:
            answer = self._reader.receive(messages.MAX_ANSWER_BYTES)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError) as error:
            raise self._process.lost(f"a request was not answered: {error}") from None
        self.pending -= 1
        self.is_broken = False
        if isinstance(answer, Exception):
            try:
                raise answer
            finally:
                # Otherwise its traceback refers to this frame, a cycle that keeps the caller's
                # values.
                del answer
        return answer

    def settle(self) -> None:
        """Wait for answers that were not received.

        Raises UnavailableError if the worker is lost.
        """
        while self.pending and not self.is_broken:
            try:
                self.receive()
            except UnavailableError:
                raise
            except Exception as error:  # The call has ended.
                _LOG.debug("an answer that nobody waits for: %s", error)

    def close(self) -> None:
        """Stop the connection's run in the worker, and close the connection."""
        self._process.shared.set_word(self.index, STOP)
        self._channel.close()


@dataclasses.dataclass(frozen=True, slots=True)
class Loss:
    """The reason of a worker's end, for the errors of clients."""

    message: str
    incident: str

    def error(self) -> UnavailableError:
        """Return a new error for a use of lost values."""
        return UnavailableError(self.message, incident=self.incident)


class WorkerProcess:
    """One process. Any thread may use it.

    Raises NoDeviceError, with a sentence, if there is no device.
    """

    def __init__(self, ordinal: int, command: Sequence[str], number: int) -> None:
        self.number, self._ordinal = number, ordinal
        self._lock = threading.Lock()
        self.loss: Loss | None = None
        """The reason why the process ended; None while it is alive."""
        self._idle: list[Connection] = []
        self._indices = iter(range(MAX_CONNECTIONS))
        self._runs, self._calls = Limit(MAX_RUNS), Limit(MAX_CALLS)
        self.freed: collections.deque[int] = collections.deque()
        """Addresses that nothing refers to any more."""
        self.unloaded: collections.deque[int] = collections.deque()
        """Programs that nothing refers to any more."""
        shared = new_shared_memory()
        self._said = io.FileIO(os.memfd_create("xla-worker-errors", os.MFD_CLOEXEC), "r+")
        self._control, theirs = socket.socketpair()
        try:
            with theirs:
                self.shared = SharedMemory(shared)
                self._process = subprocess.Popen(
                    [
                        *command,
                        *("--ordinal", str(ordinal)),
                        *("--control", str(theirs.fileno()), "--shared", str(shared)),
                    ],
                    pass_fds=(theirs.fileno(), shared),
                    stdin=subprocess.DEVNULL,
                    stdout=self._said,
                    stderr=self._said,
                )
        finally:
            os.close(shared)
        self.staging = np.frombuffer(self.shared.view, np.uint8)
        """The shared memory as an array."""
        self.blocks: queue.LifoQueue[int] = queue.LifoQueue()
        """Offsets of unused staging blocks."""
        for offset in BLOCK_OFFSETS:
            self.blocks.put(offset)
        self.description = self._described()

    def _described(self) -> DeviceDescription:
        self._control.settimeout(_START_TIMEOUT)
        try:
            answer = messages.Reader(self._control).receive(messages.MAX_ANSWER_BYTES)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError) as error:
            self._end()
            raise NoDeviceError(
                f"the worker of device {self._ordinal} must open it, got {error}: {self._errors()}"
            ) from None
        if isinstance(answer, Exception):
            self._end()
            raise answer
        self._control.settimeout(None)
        described: DeviceDescription = answer
        return described

    @property
    def process_id(self) -> int:
        """The operating system's number of the process."""
        return self._process.pid

    def check(self) -> None:
        """Raise UnavailableError if the process is lost, and all values in its memory with it."""
        if self.loss is not None:
            raise self.loss.error()

    def released(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Take the addresses and programs that the next request frees and unloads."""
        return _emptied(self.freed), _emptied(self.unloaded)

    @contextlib.contextmanager
    def connection(self, run: Cancellation | None = None) -> Iterator[Connection]:
        """Hold a connection during the block, for a run, with its cancellation, or for a call.

        Raises UnavailableError if the worker is lost.
        """
        limit = self._calls if run is None else self._runs
        with limit.acquired(run):
            connection = self._connected()
            try:
                yield connection
            finally:
                try:
                    connection.settle()
                finally:
                    self._return(connection)

    def lost(self, reason: str) -> UnavailableError:
        """End the process if it is alive, and return the error for its callers.

        `reason` is for the log, with the exit code and the process's last output.
        """
        with self._lock:
            return self._lost(reason)

    def _lost(self, reason: str) -> UnavailableError:
        if self.loss is None:
            code = self._end()
            incident = new_incident()
            name = f"device {self._ordinal} ({self.description.name})"
            self.loss = Loss(
                f"values and runs of a device last as long as its worker, got a worker of {name} "
                f"that ended, incident {incident}",
                incident,
            )
            _LOG.error(
                "incident %s: the worker of %s ended with %s, %s: %s",
                *(incident, name, code, reason, self._errors()),
            )
        return self.loss.error()

    def kill(self, reason: str) -> None:
        """Kill a process that does not answer, so that the calls that wait for it fail."""
        self._process.kill()
        self.lost(reason)

    def close(self, timeout: float) -> None:
        """End the process; kill it if it has not ended after `timeout` seconds."""
        with self._lock:
            self.loss = self.loss or Loss("a device must be open, got a closed one", "")
            self._end(timeout)

    def _connected(self) -> Connection:
        with self._lock:
            self.check()
            if self._idle:
                return self._idle.pop()
            index = next(self._indices, None)
            if index is None:
                raise self._lost("no connection is left")
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    head = messages.HEAD.pack(index)
                    socket.send_fds(self._control, [head], [theirs.fileno()])
                except OSError as error:
                    ours.close()
                    raise self._lost(f"a connection was not made: {error}") from None
            return Connection(self, ours, index)

    def _return(self, connection: Connection) -> None:
        with self._lock:
            if self.loss is None and not connection.is_broken:
                self._idle.append(connection)
                return
        connection.close()

    def _end(self, timeout: float = _EXIT_TIMEOUT) -> int | None:
        """End the process and return its exit code; None if it cannot be killed."""
        self._control.close()
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout)
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(_EXIT_TIMEOUT)
        return None

    def _errors(self) -> str:
        size = self._said.seek(0, os.SEEK_END)
        said = os.pread(self._said.fileno(), _SHOWN, max(0, size - _SHOWN))
        return said.decode(errors="replace").strip() or "it wrote nothing"


def _emptied(numbers: collections.deque[int]) -> tuple[int, ...]:
    """Pop all numbers of a queue, to which other threads may add at the same time."""
    taken = []
    while numbers:
        with contextlib.suppress(IndexError):
            taken.append(numbers.popleft())
    return tuple(taken)
