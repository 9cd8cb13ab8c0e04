"""Freeing of handles whose objects were garbage collected.

The garbage collector may run at any point of any thread, even inside grpc, so a collected object
only notes its handle. The notes are turned into one Unregister by the next ordinary call that
finds enough of them, or by `close`.
"""

import collections
import threading
import weakref
from collections.abc import Callable, Sequence

MAX_WAITING_HANDLES = 64
MAX_WAITING_BYTES = 16 << 20
"""Number of dropped handles, and bytes of their values, from which the next call frees them."""


class Reclaimer:
    """The handles of a client: those in use, and dropped ones."""

    def __init__(self, unregister: Callable[[Sequence[int]], None]) -> None:
        self._unregister = unregister
        self._held: collections.Counter[int] = collections.Counter()
        # Appended to by finalizers: deque.append takes no lock that a collection could meet.
        self._dropped: collections.deque[tuple[int, int]] = collections.deque()
        self._waiting: list[int] = []
        self._waiting_bytes = 0
        self._lock = threading.Lock()

    def hold(self, owner: object, handle: int, byte_size: int) -> "weakref.finalize[..., object]":
        """Free `handle` some time after `owner` is collected, or when the finalizer is called."""
        with self._lock:
            self._held[handle] += 1
        finalizer = weakref.finalize(owner, self._dropped.append, (handle, byte_size))
        finalizer.atexit = False
        return finalizer

    def forget(self, handle: int) -> None:
        """Stop holding a handle that is freed by other means."""
        with self._lock:
            self._release(handle)

    def due(self) -> list[int]:
        """The dropped handles if they are many or large; the caller must free them."""
        with self._lock:
            self._collect()
            is_due = len(self._waiting) >= MAX_WAITING_HANDLES
            return self._drain() if is_due or self._waiting_bytes >= MAX_WAITING_BYTES else []

    def free_if_due(self) -> None:
        """Free dropped handles if they are many or large."""
        handles = self.due()
        if handles:
            self._unregister(handles)

    def free(self) -> None:
        """Free all dropped handles."""
        with self._lock:
            self._collect()
            handles = self._drain()
        if handles:
            self._unregister(handles)

    def free_everything(self) -> None:
        """Free all handles, dropped or still in use."""
        with self._lock:
            self._collect()
            handles = [*self._drain(), *self._held.elements()]
            self._held.clear()
        if handles:
            self._unregister(handles)

    def _collect(self) -> None:
        while self._dropped:
            handle, byte_size = self._dropped.popleft()
            if self._release(handle):
                self._waiting.append(handle)
                self._waiting_bytes += byte_size

    def _release(self, handle: int) -> bool:
        if not self._held[handle]:
            return False
        self._held[handle] -= 1
        if not self._held[handle]:
            del self._held[handle]
        return True

    def _drain(self) -> list[int]:
        handles, self._waiting, self._waiting_bytes = self._waiting, [], 0
        return handles
