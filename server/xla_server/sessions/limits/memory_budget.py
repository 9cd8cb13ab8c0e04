"""The bytes that all sessions together keep on the devices."""

from collections.abc import Callable

from xla_contract.errors import ResourceExhaustedError
from xla_server.sessions.limits.shares.caller import Caller
from xla_server.sessions.limits.shares.caller_shares import EVERYTHING, CallerShares, SharedLimit


class MemoryBudget:
    """A count of bytes against a limit, and against the shares of callers. Thread-safe.

    Uploads in progress leave at least `spared_bytes` to others.
    """

    def __init__(
        self, max_bytes: int, shares: CallerShares = EVERYTHING, spared_bytes: int = 0
    ) -> None:
        self.max_bytes = max_bytes
        self.spared_bytes = spared_bytes
        self.on_change: Callable[[], object] | None = None
        """Called, with locks held, if waiting executions may get memory: not for temporaries of
        runs.
        """
        self._running = 0
        self._use = SharedLimit(max_bytes, shares)

    @property
    def used_bytes(self) -> int:
        """Bytes of the values kept, and of those set aside for values about to be made."""
        return self._use.used

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
        is_upload: bool = False,
        running: int = 0,
    ) -> None:
        """Reserve bytes, of which `running` are for executions; raises as `require`."""
        with self._use.lock:
            self._require(byte_size, purpose, caller, is_upload)
            self._count(byte_size, caller, running)
        if not running:
            self._changed()

    def require(
        self, byte_size: int, purpose: object, caller: Caller, *, is_upload: bool = False
    ) -> None:
        """Raise ResourceExhaustedError if so many bytes more are not free, also for the caller.

        The message has str(purpose), the limit and the use.
        """
        with self._use.lock:
            self._require(byte_size, purpose, caller, is_upload)

    def _require(self, byte_size: int, purpose: object, caller: Caller, is_upload: bool) -> None:
        used, limit = self.used_bytes, self.max_bytes
        spared = self.spared_bytes if is_upload else 0
        level = self._use.exceeded(caller, byte_size)
        # If nothing is free, the error is that of the memory of all callers.
        if level is not None and used + byte_size <= limit:
            noun = "bytes on the devices"
            hint = f"Free values that are no longer needed; they were for {purpose}."
            raise self._use.refusal(level, byte_size, noun, hint)
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
        self._running += running
        self._use.add(caller, byte_size)

    def _changed(self) -> None:
        on_change = self.on_change
        if on_change is not None:
            on_change()
