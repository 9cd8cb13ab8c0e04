"""The bytes that all sessions together keep on the devices."""

import threading
from collections.abc import Callable

from xla_contract.errors import ResourceExhaustedError


class MemoryBudget:
    """A count of bytes against a limit. Thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.on_change: Callable[[], object] | None = None
        """Called, with locks held, if waiting executions may get memory: not for temporaries of
        runs.
        """
        self.used_bytes = 0
        """Bytes of the values kept, and of those set aside for values about to be made."""
        self._running = 0
        self._lock = threading.Lock()

    @property
    def staying_bytes(self) -> int:
        """Bytes in use that running executions do not give back when they end."""
        return self.used_bytes - self._running

    def has_room(self, byte_size: int) -> bool:
        """Return whether `byte_size` bytes are free."""
        return self.used_bytes + byte_size <= self.max_bytes

    def take(self, byte_size: int, purpose: object, *, spared: int = 0, running: int = 0) -> None:
        """Reserve bytes, of which `running` are for executions; raises as `require`."""
        with self._lock:
            self._require(byte_size, purpose, spared)
            self.used_bytes += byte_size
            self._running += running
        if not running:
            self._changed()

    def require(self, byte_size: int, purpose: object, *, spared: int = 0) -> None:
        """Raise ResourceExhaustedError if so many bytes more would leave fewer than `spared`.

        The message has str(purpose), the limit and the use.
        """
        with self._lock:
            self._require(byte_size, purpose, spared)

    def _require(self, byte_size: int, purpose: object, spared: int) -> None:
        if self.used_bytes + byte_size <= self.max_bytes - spared:
            return
        if spared:
            raise ResourceExhaustedError(
                f"uploads in progress leave {spared} of {self.max_bytes} bytes on the devices to "
                f"others, got {byte_size} bytes more for {purpose} with {self.used_bytes} in use",
                hint="Unregister values that are no longer needed, or upload later.",
            )
        raise ResourceExhaustedError(
            f"values may take {self.max_bytes} bytes on the devices, got {byte_size} bytes more "
            f"for {purpose} with {self.used_bytes} in use",
            hint="Unregister values that are no longer needed, or raise max_device_bytes.",
        )

    def change(self, byte_size: int, *, running: int = 0) -> None:
        """Count bytes added without reservation, or (negative) released; `running` as `take`."""
        with self._lock:
            self.used_bytes += byte_size
            self._running += running
        self._changed()

    def _changed(self) -> None:
        on_change = self.on_change
        if on_change is not None:
            on_change()
