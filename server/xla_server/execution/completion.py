"""An event that happens once, with callbacks."""

import threading
from collections.abc import Callable


class Completion:
    """An event that any thread may set, once."""

    __slots__ = ("_callbacks", "_lock", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        """True after `finish`."""
        self._callbacks: dict[object, Callable[[], None]] = {}
        self._lock = threading.Lock()

    def finish(self) -> bool:
        """Set the event and run the callbacks in this thread; return False if it was set before."""
        with self._lock:
            if self.is_done:
                return False
            self.is_done = True
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for callback in callbacks:
            callback()
        return True

    def when_done(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once the event is set, from any thread; at once if it is set already.

        Returns a function that removes the callback; it may be called more than once. The
        callback must not raise and must not wait.
        """
        key = object()
        with self._lock:
            is_done = self.is_done
            if not is_done:
                self._callbacks[key] = callback
        if is_done:
            callback()

        def remove() -> None:
            with self._lock:
                self._callbacks.pop(key, None)

        return remove
