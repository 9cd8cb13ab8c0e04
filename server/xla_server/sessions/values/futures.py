"""Futures of values that executions will compute; they are awaited without a thread."""

from collections.abc import Callable

from xla_contract.errors import XlaError
from xla_contract.types.shape import Shape
from xla_server.backends.platform import Buffer
from xla_server.execution.completion import Completion
from xla_server.sessions.error_context import copy_of


class ValuePendingError(Exception):
    """A call needs a value that is not computed yet, and must be repeated once `awaited` is done.

    It has no status: the rpc layer waits without holding a thread.
    """

    def __init__(self, awaited: Completion, subject: str = "") -> None:
        """`subject` names the execution that a call waits for; empty for a value."""
        super().__init__("what the call needs is not there yet")
        self.awaited = awaited
        self.subject = subject


class _OnLaunch:
    """The key of a callback that a launch calls."""


class ValueFuture(Completion):
    """A value of a known shape that an execution will compute.

    Its table counts its `users`, and sets the value: at the latest when it is computed, or when its
    execution is launched on a device that executes those that use it afterwards.
    """

    __slots__ = ("buffer", "error", "shape", "users")

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.users = 0
        self.buffer: Buffer | None = None
        """The value once it is set, which may be before it is computed."""
        self.error: XlaError | None = None
        """The error that replaces the value, once there is one."""

    def when_launched(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the value is set or has failed, in other respects as `when_done`."""
        with self._lock:
            is_pending = self.buffer is None and not self.is_done
            if is_pending:
                self._callbacks[_OnLaunch()] = callback
        if not is_pending:
            callback()

    def launch(self) -> None:
        """Notify those who wait for a value to be set, which is not computed yet."""
        with self._lock:
            keys = [key for key in self._callbacks if isinstance(key, _OnLaunch)]
            callbacks = [self._callbacks.pop(key) for key in keys]
        for callback in callbacks:
            callback()

    def fail(self, error: XlaError) -> None:
        """Replace the value by an error, once; `finish` then notifies the waiters."""
        self.buffer, self.error = None, error

    def result(self) -> Buffer:
        """The computed value; raises ValuePendingError, or the error that replaces it."""
        buffer = self.buffer
        if buffer is not None and self.is_done:
            return buffer
        self.require_no_error()
        raise ValuePendingError(self)

    def launched(self) -> Buffer:
        """The value as an argument, computed or not; raises as `result` until it is set."""
        buffer = self.buffer
        return self.result() if buffer is None else buffer

    def require_no_error(self) -> None:
        """Raise the error that replaces the value, if there is one."""
        if self.error is not None:
            raise copy_of(self.error)
