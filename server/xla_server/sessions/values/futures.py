"""Values that an execution is still to give, and what else is waited for without a thread."""

import threading
from collections.abc import Callable
from typing import Protocol

from xla_contract.errors import XlaError
from xla_contract.types.shape import Shape
from xla_server.backends.platform import Buffer
from xla_server.sessions.error_context import copy_of


class Awaitable(Protocol):
    """Something that will be there."""

    def when_done(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once, when it is there, from any thread; at once if it is.

        Gives a function that takes the callback back. The callback must not raise or wait.
        """


class ValuePendingError(Exception):
    """A call needs a value that is not computed yet: it is to be repeated once `awaited` is done.

    It has no status: the rpc layer waits without holding a thread.
    """

    def __init__(self, awaited: Awaitable) -> None:
        super().__init__("what the call needs is not there yet")
        self.awaited = awaited


class Completion:
    """Done once, from any thread. Implements Awaitable."""

    __slots__ = ("_callbacks", "_is_done", "_lock")

    def __init__(self) -> None:
        self._is_done = False
        self._callbacks: dict[object, Callable[[], None]] = {}
        self._lock = threading.Lock()

    @property
    def is_done(self) -> bool:
        """True after `finish`."""
        return self._is_done

    def finish(self) -> bool:
        """Mark the future as done and run the callbacks in this thread; False if it was done
        before.
        """
        with self._lock:
            if self._is_done:
                return False
            self._is_done = True
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for callback in callbacks:
            callback()
        return True

    def when_done(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once done, as Awaitable says."""
        key = object()
        with self._lock:
            is_done = self._is_done
            if not is_done:
                self._callbacks[key] = callback
        if is_done:
            callback()

        def remove() -> None:
            with self._lock:
                self._callbacks.pop(key, None)

        return remove


class ValueFuture:
    """A value of a known shape that an execution will give. Implements Awaitable.

    The table that has it counts its `users`, and sets the value.
    """

    __slots__ = ("_buffer", "_completion", "_error", "shape", "users")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.users = 0
        self._completion = Completion()
        self._buffer: Buffer | None = None
        self._error: XlaError | None = None

    @property
    def has_value(self) -> bool:
        """True if the value was set."""
        return self._buffer is not None

    def set(self, buffer: Buffer) -> None:
        """Give the value, once; `finish` tells of it."""
        self._buffer = buffer

    def finish(self) -> None:
        """Call those who wait for the value that was set."""
        self._completion.finish()

    def fail(self, error: XlaError) -> None:
        """Say why there will be no value, once."""
        self._error = error
        self._completion.finish()

    def when_done(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once there is a value or an error, as Awaitable says."""
        return self._completion.when_done(callback)

    def result(self) -> Buffer:
        """The value; raises ValuePendingError, or why there is none."""
        if self._buffer is not None:
            return self._buffer
        self.require_no_error()
        raise ValuePendingError(self)

    def require_no_error(self) -> None:
        """Raise why there will be no value, if that is known."""
        if self._error is not None:
            raise copy_of(self._error)
