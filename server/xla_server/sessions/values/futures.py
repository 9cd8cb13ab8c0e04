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

    Its table counts its `users`, and sets the value.
    """

    __slots__ = ("_buffer", "error", "shape", "users")

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.users = 0
        self._buffer: Buffer | None = None
        self.error: XlaError | None = None
        """The error that replaces the value, once there is one."""

    @property
    def has_value(self) -> bool:
        """True if the value was set."""
        return self._buffer is not None

    def set(self, buffer: Buffer) -> None:
        """Set the value, once; `finish` then notifies the waiters."""
        self._buffer = buffer

    def fail(self, error: XlaError) -> None:
        """Set the error that replaces the value, once."""
        self.error = error
        self.finish()

    def result(self) -> Buffer:
        """The value; raises ValuePendingError, or the error that replaces it."""
        if self._buffer is not None:
            return self._buffer
        self.require_no_error()
        raise ValuePendingError(self)

    def require_no_error(self) -> None:
        """Raise the error that replaces the value, if there is one."""
        if self.error is not None:
            raise copy_of(self.error)
