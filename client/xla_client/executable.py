"""Compiled programs, and running them."""

import dataclasses
import threading
from typing import Any

from xla_client._session import Session
from xla_client._transport import Pending
from xla_client.arguments import Argument, on_device
from xla_client.buffer import Buffer, unpacked
from xla_contract.errors import InvalidArgumentError, XlaError
from xla_contract.literal import Nested
from xla_contract.shape import ProgramShape, Shape
from xla_contract.stubs import xla_data_pb2, xla_pb2

_DEFAULT_DEVICE = 0


@dataclasses.dataclass(frozen=True, slots=True)
class ExecutionProfile:
    """What a run cost, as the server measured it."""

    compilation_cache_hit: bool = False
    compile_time_ms: int = 0
    compute_cycle_count: int = 0
    compute_time_ns: int = 0
    compute_and_transfer_time_ns: int = 0
    executable_size_in_bytes: int = 0

    @classmethod
    def from_proto(cls, proto: xla_data_pb2.ExecutionProfile) -> "ExecutionProfile":
        """The profile in a message."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: getattr(proto, name) for name in names})


class Execution:
    """A run under way, from `Executable.submit`."""

    def __init__(
        self, session: Session, pending: Pending[Any], shape: Shape, arguments: list[Buffer]
    ) -> None:
        self._pending = pending
        self._outcome = _Outcome(session, pending, shape, arguments)
        # The callback, which outlives this object, makes sure that a result nobody asks for is
        # freed too.
        pending.add_done_callback(self._outcome.settle)

    def result(self, timeout: float | None = None) -> Buffer | tuple[Buffer, ...]:
        """Wait for the result, as `Executable.__call__` gives it.

        Raises XlaError when the run failed, CancelledError when it was cancelled, and
        DeadlineExceededError after `timeout` seconds, in which case the run goes on.
        """
        self._pending.result(timeout)
        return unpacked(self._outcome.settled())

    @property
    def profile(self) -> ExecutionProfile:
        """What the run cost; waits for it."""
        return ExecutionProfile.from_proto(self._pending.result().profile)

    def done(self) -> bool:
        """Whether the run has finished, well or not."""
        return self._pending.done()

    def cancel(self) -> bool:
        """Stop the run; False when it had finished before."""
        return self._pending.cancel()


class _Outcome:
    def __init__(
        self, session: Session, pending: Pending[Any], shape: Shape, arguments: list[Buffer]
    ) -> None:
        self._session = session
        self._pending = pending
        self._shape = shape
        self._arguments = arguments
        self._lock = threading.Lock()
        self._buffer: Buffer | None = None

    def settle(self) -> None:
        """Take hold of the result, if there is one."""
        with self._lock:
            self._arguments = []
            if self._buffer is None:
                try:
                    handle = self._pending.result().output.handle
                except XlaError:
                    return
                self._buffer = Buffer(self._session, handle, self._shape)

    def settled(self) -> Buffer:
        """The result of a run that went well."""
        self.settle()
        assert self._buffer is not None
        return self._buffer


class Executable:
    """A compiled program on the server's default device.

    It is freed by `delete`, some time after it is garbage collected, or when its client closes.
    """

    def __init__(
        self, session: Session, handle: int, name: str, program_shape: ProgramShape
    ) -> None:
        self._session = session
        self._handle = handle
        self._name = name
        self._program_shape = program_shape
        self._finalizer = session.hold(self, handle, 0)

    @property
    def program_shape(self) -> ProgramShape:
        """The signature with the layouts it was compiled for."""
        return self._program_shape

    @property
    def name(self) -> str:
        """The name of the computation."""
        return self._name

    @property
    def handle(self) -> int:
        """The execution handle on the wire; raises InvalidArgumentError once deleted."""
        if not self._finalizer.alive:
            raise InvalidArgumentError(
                f"an executable must be alive to be used, got the deleted {self._name!r}"
            )
        return self._handle

    def __call__(
        self, *arguments: Argument, timeout: float | None = None
    ) -> Buffer | tuple[Buffer, ...]:
        """Run the program; the result stays on the server.

        Buffers are used where they lie, anything else is uploaded first. A tuple comes back as a
        tuple of buffers; a tuple that holds tuples as the one buffer it is. Raises
        InvalidArgumentError for arguments that do not fit, and what the run raises.
        """
        return unpacked(self._execute(arguments, timeout), timeout=timeout)

    def run(self, *arguments: Argument, timeout: float | None = None) -> Nested:
        """Run the program and fetch the result: an array, or (nested) tuples of arrays."""
        return self._execute(arguments, timeout).to_numpy(timeout=timeout)

    def submit(self, *arguments: Argument, timeout: float | None = None) -> Execution:
        """Start a run and return at once; `timeout` limits the run itself."""
        buffers = self._on_device(arguments, timeout)
        pending = self._session.start("Execute", self._request(buffers), timeout)
        return Execution(self._session, pending, self._program_shape.result, buffers)

    def delete(self, *, timeout: float | None = None) -> None:
        """Free the program now; a second call does nothing."""
        if self._finalizer.detach() is not None:
            self._session.delete(self._handle, timeout)

    def _execute(self, arguments: tuple[Argument, ...], timeout: float | None) -> Buffer:
        buffers = self._on_device(arguments, timeout)
        response = self._session.call("Execute", self._request(buffers), timeout)
        return Buffer(self._session, response.output.handle, self._program_shape.result)

    def _on_device(self, arguments: tuple[Argument, ...], timeout: float | None) -> list[Buffer]:
        parameters = self._program_shape.parameters
        return on_device(self._session, arguments, parameters, _DEFAULT_DEVICE, timeout)

    def _request(self, buffers: list[Buffer]) -> xla_pb2.ExecuteRequest:
        return xla_pb2.ExecuteRequest(
            handle=xla_data_pb2.ExecutionHandle(handle=self.handle),
            arguments=[xla_data_pb2.GlobalDataHandle(handle=each.handle) for each in buffers],
        )

    def __repr__(self) -> str:
        return f"Executable({self._name!r}, {self._program_shape})"
