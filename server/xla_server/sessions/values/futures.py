"""Futures of values that executions will compute; they are awaited without a thread."""

from xla_contract.errors import XlaError
from xla_contract.types.shape import Shape
from xla_server.backends.platform import Buffer
from xla_server.execution.completion import Completion
from xla_server.sessions.error_context import copy_of


class ValuePendingError(Exception):
    """A call needs a value that is not computed yet, and must be repeated once `awaited` is done.

    It has no status: the rpc layer waits without holding a thread.
    """

    def __init__(self, awaited: Completion) -> None:
        super().__init__("what the call needs is not there yet")
        self.awaited = awaited


class ValueFuture(Completion):
    """A value of a known shape that an execution will compute.

    Its table counts its `users`, and sets the value: at the latest when it is computed, or when its
    execution is launched on a device that executes those that use it afterwards.
    """

    __slots__ = ("buffer", "error", "launch", "shape", "users")

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.users = 0
        self.buffer: Buffer | None = None
        """The value once it is set, which may be before it is computed."""
        self.launch = Completion()
        """Done once executions may have the value as an argument, or it has failed."""
        self.error: XlaError | None = None
        """The error that replaces the value, once there is one."""

    def finish(self) -> bool:
        """Notify those who wait that the value is computed or has failed; as Completion.finish."""
        is_first = super().finish()
        self.launch.finish()
        return is_first

    def fail(self, error: XlaError) -> None:
        """Replace the value by an error, once; `finish` then notifies the waiters."""
        self.buffer, self.error = None, error

    def result(self) -> Buffer:
        """The computed value; raises ValuePendingError, or the error that replaces it."""
        return self._result(self)

    def launched(self) -> Buffer:
        """The value as an argument, computed or not; raises as `result` until it is set."""
        return self._result(self.launch)

    def _result(self, awaited: Completion) -> Buffer:
        if awaited.is_done and self.buffer is not None:
            return self.buffer
        self.require_no_error()
        raise ValuePendingError(awaited)

    def require_no_error(self) -> None:
        """Raise the error that replaces the value, if there is one."""
        if self.error is not None:
            raise copy_of(self.error)
