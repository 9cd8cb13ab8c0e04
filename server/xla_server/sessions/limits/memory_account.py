"""The device memory of one session's caller, charged for each reservation."""

from typing import Any

from xla_server.sessions.limits.memory_budget import MemoryBudget
from xla_server.sessions.limits.shares.caller import Caller
from xla_server.sessions.limits.shares.caller_shares import CallerUse


class MemoryAccount:
    """The memory of the devices as the sessions of one caller have it. Thread-safe.

    It wraps the memory of all callers; its methods take the same arguments.
    """

    def __init__(self, memory: MemoryBudget, use: CallerUse, caller: Caller) -> None:
        self._memory = memory
        self._use = use
        self._caller = caller

    def take(self, byte_size: int, purpose: object, **details: Any) -> None:
        """Reserve bytes, as `MemoryBudget.take`.

        Raises ResourceExhaustedError also if the caller may not have so many bytes more.
        """
        with self._use.lock:
            self._require(byte_size, purpose)
            self._memory.take(byte_size, purpose, **details)
            self._use.add(self._caller, byte_size)

    def require(self, byte_size: int, purpose: object, **details: Any) -> None:
        """Raise as `take` if so many bytes have no room now."""
        with self._use.lock:
            self._require(byte_size, purpose)
            self._memory.require(byte_size, purpose, **details)

    def change(self, byte_size: int, **details: Any) -> None:
        """Count bytes that were added without a reservation or, if negative, released."""
        with self._use.lock:
            self._memory.change(byte_size, **details)
            self._use.add(self._caller, byte_size)

    def _require(self, byte_size: int, purpose: object) -> None:
        used, limit = self._memory.used_bytes, self._memory.max_bytes
        level = self._use.exceeded(self._caller, byte_size, used, limit)
        # Without any room at all, the error is that of the memory of all callers.
        if level is not None and used + byte_size <= limit:
            raise self._use.refusal(
                level,
                byte_size,
                used,
                limit,
                "bytes on the devices",
                f"Unregister values that are no longer needed; they were for {purpose}.",
            )
