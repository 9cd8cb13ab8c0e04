"""The bytes that all sessions together keep on the devices."""

import threading

from xla_contract.errors import ResourceExhaustedError


class DeviceMemory:
    """A count of bytes against a limit. Any thread may use it."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._used = 0
        self._lock = threading.Lock()

    @property
    def used_bytes(self) -> int:
        """Bytes of the values kept, and of those set aside for values about to be made."""
        return self._used

    def take(self, byte_size: int, purpose: object) -> None:
        """Set bytes aside.

        Raises ResourceExhaustedError, with str(purpose), the limit and the use, when there is no
        room.
        """
        with self._lock:
            if self._used + byte_size > self.max_bytes:
                raise ResourceExhaustedError(
                    f"values may take {self.max_bytes} bytes on the devices, got {byte_size} "
                    f"bytes more for {purpose} with {self._used} in use",
                    hint="Unregister values that are no longer needed, or raise max_device_bytes.",
                )
            self._used += byte_size

    def change(self, byte_size: int) -> None:
        """Count bytes that came without being set aside, or (negative) went."""
        with self._lock:
            self._used += byte_size
