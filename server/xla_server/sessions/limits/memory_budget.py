"""The bytes that all sessions together keep on the devices."""

from collections.abc import Callable

from xla_contract.errors import ResourceExhaustedError
from xla_server.sessions.limits.shares.caller import Caller
from xla_server.sessions.limits.shares.caller_shares import EVERYTHING, CallerShares, CallerUse


class MemoryBudget:
    """A count of bytes against a limit, and against the shares of callers. Thread-safe."""

    def __init__(self, max_bytes: int, shares: CallerShares = EVERYTHING) -> None:
        self.max_bytes = max_bytes
        self.on_change: Callable[[], object] | None = None
        """Called, with locks held, if waiting executions may get memory: not for temporaries of
        runs.
        """
        self.used_bytes = 0
        """Bytes of the values kept, and of those set aside for values about to be made."""
        self._running = 0
        self._use = CallerUse(shares)

    @property
    def staying_bytes(self) -> int:
        """Bytes in use that running executions do not give back when they end."""
        return self.used_bytes - self._running

    def has_capacity(self, byte_size: int) -> bool:
        """Return whether `byte_size` bytes are free."""
        return self.used_bytes + byte_size <= self.max_bytes

    def reserve(
        self,
        byte_size: int,
        purpose: object,
        caller: Caller,
        *,
        spared: int = 0,
        running: int = 0,
    ) -> None:
        """Reserve bytes, of which `running` are for executions; raises as `require`."""
        with self._use.lock:
            self._require(byte_size, purpose, caller, spared)
            self._count(byte_size, caller, running)
        if not running:
            self._changed()

    def require(self, byte_size: int, purpose: object, caller: Caller, *, spared: int = 0) -> None:
        """Raise ResourceExhaustedError if so many bytes more would leave fewer than `spared`.

        The same holds if the caller may not have so many more. The message has str(purpose), the
        limit and the use.
        """
        with self._use.lock:
            self._require(byte_size, purpose, caller, spared)

    def _require(self, byte_size: int, purpose: object, caller: Caller, spared: int) -> None:
        used, limit = self.used_bytes, self.max_bytes
        level = self._use.exceeded(caller, byte_size, used, limit)
        # If nothing is free, the error is that of the memory of all callers.
        if level is not None and used + byte_size <= limit:
            noun = "bytes on the devices"
            hint = f"Free values that are no longer needed; they were for {purpose}."
            raise self._use.refusal(level, byte_size, used, limit, noun, hint)
        if used + byte_size <= limit - spared:
            return
        if spared:
            raise ResourceExhaustedError(
                f"uploads in progress leave {spared} of {limit} bytes on the devices to others, "
                f"got {byte_size} bytes more for {purpose} with {used} in use",
                hint="Free values that are no longer needed, or upload later.",
            )
        raise ResourceExhaustedError(
            f"values may take {limit} bytes on the devices, got {byte_size} bytes more for "
            f"{purpose} with {used} in use",
            hint="Free values that are no longer needed, or raise max_device_bytes.",
        )

    def change(self, byte_size: int, caller: Caller, *, running: int = 0) -> None:
        """Count bytes added without reservation, or (negative) released; `running` as `reserve`."""
        with self._use.lock:
            self._count(byte_size, caller, running)
        self._changed()

    def _count(self, byte_size: int, caller: Caller, running: int) -> None:
        self.used_bytes += byte_size
        self._running += running
        self._use.add(caller, byte_size)

    def _changed(self) -> None:
        on_change = self.on_change
        if on_change is not None:
            on_change()
