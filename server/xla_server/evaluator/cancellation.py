"""The wish that a run stops, passed between threads."""

import ctypes
import threading
from collections.abc import Callable

from xla_contract.errors import CancelledError, XlaError


class Cancellation:
    """Set once, from any thread; seen by the run at its next instruction.

    A thread that waits registers a callback that wakes it. The first call of `cancel` decides
    the error.
    """

    __slots__ = ("_callbacks", "_error", "_lock", "_word")

    def __init__(self) -> None:
        self._error: XlaError | None = None
        self._lock = threading.Lock()
        self._callbacks: dict[object, Callable[[], None]] = {}
        self._word: ctypes.c_int64 | None = None

    def cancel(self, error: XlaError | None = None) -> bool:
        """Ask the run to stop with `error`, by default CancelledError.

        Calls the registered callbacks in this thread. Returns whether this call was the first.
        """
        with self._lock:
            if self._error is not None:
                return False
            self._error = CancelledError("the caller gave up") if error is None else error
            if self._word is not None:
                self._word.value = 1
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for callback in callbacks:
            callback()
        return True

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._error is not None

    @property
    def word(self) -> int:
        """The address of an int64 that is not 0 once `cancel` was called.

        Native code reads it; it lives as long as this object.
        """
        word = self._word
        if word is None:
            with self._lock:
                if self._word is None:
                    self._word = ctypes.c_int64(self._error is not None)
                word = self._word
        return ctypes.addressof(word)

    def check(self) -> None:
        """Raise the error given to `cancel`, if it was called."""
        error = self._error
        if error is not None:
            # A copy: several threads may raise at once and each raise writes a traceback.
            raise type(error)(
                error.message, op=error.op, instruction=error.instruction, hint=error.hint
            )

    def add_callback(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once on cancellation, at once if that has happened.

        Returns a function that takes the callback back; it may be called more than once. The
        callback must not raise and must not wait.
        """
        key = object()
        with self._lock:
            pending = self._error is None
            if pending:
                self._callbacks[key] = callback
        if not pending:
            callback()

        def remove() -> None:
            with self._lock:
                self._callbacks.pop(key, None)

        return remove
