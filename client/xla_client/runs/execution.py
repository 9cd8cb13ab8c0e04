"""Runs under way, and what runs cost."""

import abc
import asyncio
import concurrent.futures
import contextlib
import dataclasses
import functools
import threading
import weakref
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeAlias

from xla_client.coercion.parameters import brief, parameter_class
from xla_client.display.tables import table
from xla_client.runs.arguments import RunUnderWay
from xla_client.session.buffer import Buffer
from xla_client.session.session import Session
from xla_client.transport.errors import CutOffError
from xla_client.transport.transport import Pending
from xla_contract.errors import (
    DeadlineExceededError,
    SessionEndedError,
    XlaError,
)
from xla_contract.stubs import xla_data_pb2, xla_extension_pb2, xla_pb2
from xla_contract.stubs.xla_extension_pb2 import CAPABILITY_DESCRIBE_HANDLES
from xla_contract.wire.shape_proto import shape_from_proto

if TYPE_CHECKING:
    # Its default is what Python has from 3.13 on.
    from typing_extensions import TypeVar

    R = TypeVar("R", default=Buffer)
else:
    from typing import TypeVar

    R = TypeVar("R")

_ANSWER_SECONDS = 0.1
"""Seconds that `done` waits for the end of a run, on a server without a query for it."""

Buffers: TypeAlias = "Buffer | tuple[Buffer | tuple[Buffer, ...], ...]"
"""Results on the server: a tuple of arrays as the buffers of its elements, and of a pipeline one
after the other."""


@dataclasses.dataclass(frozen=True, slots=True)
class ExecutionProfile:
    """Cost of a run, as the server measured it."""

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


@parameter_class
class Execution(RunUnderWay, abc.ABC, Generic[R]):
    """A run under way, from `Executable.submit` or `Pipeline.submit`.

    `result` waits for it, `future` is for concurrent.futures, and it can be awaited. Its `buffers`
    may be arguments of further runs before they have values: a run that names them waits for
    them on the server, and fails with the error of the run that failed.
    """

    def __init__(self) -> None:
        self._future = _ExecutionFuture(weakref.WeakMethod(self.cancel))
        self._profile = ExecutionProfile()

    @property
    @abc.abstractmethod
    def handle(self) -> int:
        """The execution handle on the wire, for `Client.adopt_execution`.

        The server forgets it once the result was waited for. Raises UnimplementedError if the
        server cannot launch.
        """

    @property
    @abc.abstractmethod
    def buffers(self) -> R:
        """The result, as from `result`, without waiting if the server can launch."""

    @abc.abstractmethod
    def cancel(self) -> bool:
        """Stop the run; False when it is known to have finished before."""

    @abc.abstractmethod
    def _watch(self) -> None:
        """Make sure that the future is set when the run has ended; may be called again."""

    def future(self) -> "concurrent.futures.Future[R]":
        """Return the run as a future, always the same one; cancelling it stops the run.

        Its result is that of `result`; it raises XlaError.
        """
        self._watch()
        future: concurrent.futures.Future[Any] = self._future
        return future

    @brief
    def result(self, timeout: float | None = None) -> R:
        """Wait for the result, as `Executable.__call__` or `Pipeline.run` gives it.

        Args:
            timeout: Seconds to wait; None for no limit.

        Returns:
            The result.

        Raises:
            XlaError: The run failed.
            CancelledError: The run was cancelled.
            DeadlineExceededError: There was no result in time; the run continues.
        """
        try:
            # More is an OverflowError.
            limit = None if timeout is None else min(timeout, threading.TIMEOUT_MAX)
            return self.future().result(limit)
        except concurrent.futures.TimeoutError:
            raise DeadlineExceededError(
                f"the result must come within the time given, got none in {timeout} s",
                op="WaitForExecution",
            ) from None

    @property
    def profile(self) -> ExecutionProfile:
        """The cost of the run; waits for its end."""
        self.future().result()
        return self._profile

    def done(self) -> bool:
        """Return whether the run has finished, well or not; does not wait for it.

        If nothing waits for the run yet, the server is asked, so the first call is right, too.
        """
        return self._future.done() or self._has_ended() or self.future().done()

    def _has_ended(self) -> bool:
        """Return whether the server knows of an end that the future cannot know yet."""
        return False

    def __repr__(self) -> str:
        """Return the state as it is known here, without a call."""
        future = self._future
        if not future.done():
            state = "not known to have ended"
        elif future.exception() is None:
            state = "done"
        else:
            state = f"failed: {future.exception()}"
        return f"Execution({state})"

    def _repr_html_(self) -> str:
        return table("Execution", {"state": repr(self)[len("Execution(") : -1]})

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an Execution is on its server and cannot be pickled or copied: detach the client and "
            "take its handle to Client.adopt_execution"
        )

    def __await__(self) -> Generator[Any, None, R]:
        return asyncio.wrap_future(self.future()).__await__()


class _ExecutionFuture(concurrent.futures.Future[Any]):
    """A future that stops its run when it is cancelled; then the run's error is CancelledError."""

    def __init__(self, cancel_run: Any) -> None:
        super().__init__()
        self._cancel_run = cancel_run
        self.set_running_or_notify_cancel()

    def cancel(self) -> bool:
        """Stop the run; return True if the server was asked to."""
        cancel = self._cancel_run()
        return bool(cancel is not None and cancel())


class LaunchedExecution(Execution[R]):
    """A run that continues on the server without a call."""

    def __init__(self, session: Session, handle: int, buffers: R, timeout: float | None) -> None:
        super().__init__()
        self._session = session
        self._generation = session.generation
        self._handle = handle
        self._buffers = buffers
        self._timeout = timeout
        self._forget = session.hold(self, handle, 0)
        # Reentrant: callbacks of the future may call methods that take the lock.
        self._lock = threading.RLock()
        self._is_lost = False
        self._waiting: Pending[Any] | None = None
        if timeout is not None:
            self._watch()

    @property
    def handle(self) -> int:
        """The execution handle on the wire; the server knows it until the run was waited for."""
        return self._handle

    @property
    def buffers(self) -> R:
        """The result, whose values come when the run has ended."""
        return self._buffers

    def cancel(self) -> bool:
        """Stop the run; False when it is known to have finished before."""
        self._watch()
        if self._future.done():
            return False
        request = xla_extension_pb2.CancelExecutionRequest()
        request.execution.handle = self._handle
        stopping = self._session.start("CancelExecution", request)
        # grpc cancels a call whose object is garbage collected.
        stopping.add_done_callback(functools.partial(_hold, stopping))
        return True

    def _watch(self) -> None:
        with self._lock:
            if self._waiting is not None or self._is_lost:
                return
            self._is_lost = self._generation is not self._session.generation
            if not self._is_lost:
                self._wait()
        if self._is_lost:
            self._future.set_exception(self._lost())

    def _wait(self) -> None:
        """Begin to wait for the end of the run. Called with the lock."""
        request = xla_pb2.WaitForExecutionRequest()
        request.execution.handle = self._handle
        waiting = self._session.start("WaitForExecution", request, self._timeout)
        self._waiting = waiting
        # The server forgets the handle by itself from here on.
        if self._forget.detach() is not None:
            self._session.reclaimer.forget(self._handle)
        waiting.add_done_callback(lambda: self._settle(waiting))

    def _has_ended(self) -> bool:
        session = self._session
        if self._waiting is not None:
            return False
        if CAPABILITY_DESCRIBE_HANDLES not in session.transport.capabilities:
            concurrent.futures.wait([self.future()], _ANSWER_SECONDS)
            return False
        request = xla_extension_pb2.DescribeHandlesRequest(handles=[self._handle])
        if self._generation is not session.generation:
            return False
        try:
            (found,) = session.call("DescribeHandles", request).handles
        except XlaError:  # The future has the error.
            return False
        return bool(found.execution.is_done)

    def _settle(self, waiting: Pending[Any]) -> None:
        try:
            response = waiting.result()
        except DeadlineExceededError as error:
            # The `timeout` is the run's, which the server does not know.
            with contextlib.suppress(XlaError):
                self.cancel()
            self._future.set_exception(error)
        except (SessionEndedError, CutOffError) as error:
            # The query is made in a thread of its own: this one belongs to grpc.
            threading.Thread(target=self._fail, args=(error,), name="xla-lost", daemon=True).start()
        except XlaError as error:
            self._future.set_exception(error)
        else:
            self._profile = ExecutionProfile.from_proto(response.profile)
            self._future.set_result(self._buffers)

    def _fail(self, error: XlaError) -> None:
        session = self._session
        try:
            if isinstance(error, CutOffError):
                error = session.after_cut(self._generation, error)
            else:
                session.renew(self._generation, error)
            if self._generation is not session.generation:
                error = self._lost()
        except XlaError as failure:
            error = failure
        self._future.set_exception(error)

    def _lost(self) -> XlaError:
        return self._session.lost("a run").at("WaitForExecution")


def _hold(_: object) -> None:
    """Keep the argument of a partial call of this function alive with the callback."""


def adopted_buffers(
    session: Session, description: xla_extension_pb2.ExecutionDescription
) -> Buffers:
    """The buffers of a launched execution that is described, as `submit` gave them."""
    outputs = [
        (output.handle, shape_from_proto(shape))
        for step in description.steps
        for output, shape in zip(step.outputs, step.shapes, strict=True)
    ]
    buffers = tuple(Buffer(session, handle, shape) for handle, shape in outputs)
    is_whole = len(description.steps) == len(buffers) == 1 and buffers[0].shape.equal(
        shape_from_proto(description.steps[0].result)
    )
    return buffers[0] if is_whole else buffers
