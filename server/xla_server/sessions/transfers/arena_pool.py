"""The arenas of all sessions, within one limit and the share of each caller."""

import contextlib
import dataclasses
import logging
import threading
import time

from xla_contract.errors import ResourceExhaustedError, XlaError
from xla_server.execution.memory_check import LARGE, require_bytes
from xla_server.execution.start_thread import start_thread
from xla_server.sessions.limits.shares.caller import LOCAL, Caller
from xla_server.sessions.limits.shares.caller_shares import (
    EVERYTHING,
    CallerShares,
    Level,
    SharedLimit,
    levels,
)
from xla_server.sessions.transfers.arena import Arena
from xla_server.sessions.transfers.free_list import PAGE

_LOG = logging.getLogger(__name__)

WARM_BYTES = 64 << 20
"""Bytes that the next arena is warmed with, and that an idle one keeps."""

IDLE_SECONDS = 10.0
"""Seconds that an arena without allocations keeps all its memory."""


_HINT = "Transfer in chunks, or raise shared_memory_bytes."


@dataclasses.dataclass(eq=False, slots=True)
class _Account:
    """The memory of one arena, and the caller whose use it is; None while the pool keeps it."""

    caller: Caller | None = None
    byte_size: int = 0
    stray_bytes: int = 0
    """Bytes outside all parts, as of the last scan."""


class ArenaPool:
    """Arenas of `session_bytes` each that together have no more than `max_bytes` of memory.

    Thread-safe. One arena is kept ahead, warm, from the moment the first one is taken: a server
    without such clients pays nothing.

    Args:
        max_bytes: The limit of all arenas together.
        session_bytes: The size of one arena.
        warm_bytes: The memory that the arena kept ahead has.
        shares: The largest shares of `max_bytes` that one identity and one connection may have.
    """

    def __init__(
        self,
        *,
        max_bytes: int,
        session_bytes: int,
        warm_bytes: int = WARM_BYTES,
        shares: CallerShares = EVERYTHING,
    ) -> None:
        self.max_bytes = max_bytes
        # A session belongs to one connection of one identity, and never gets more than their
        # shares.
        session_bytes_cap = int(min(shares.identity, shares.connection) * max_bytes)
        self.session_bytes = min(session_bytes, session_bytes_cap) // PAGE * PAGE
        self._warm_bytes = min(warm_bytes, self.session_bytes) // PAGE * PAGE
        self._arenas: dict[Arena, _Account] = {}
        self._spare: tuple[Arena, _Account] | None = None
        self._warming: threading.Thread | None = None
        self._closed = False
        self._use = SharedLimit(max_bytes, shares)
        self._lock = self._use.lock

    @property
    def used_bytes(self) -> int:
        """Bytes of memory behind all arenas, the one kept ahead included."""
        self._scan_strays()
        return self._use.used

    @property
    def lent_bytes(self) -> int:
        """Bytes of memory behind the arenas that sessions have."""
        with self._lock:
            return sum(arena.backed_bytes for arena in self._arenas)

    @property
    def is_warming(self) -> bool:
        """True while the next arena is being made."""
        return self._warming is not None

    def __len__(self) -> int:
        """The number of arenas of sessions."""
        return len(self._arenas)

    def acquire(self, caller: Caller = LOCAL) -> Arena:
        """Return an arena that no client has had; raises OSError if the system refuses it.

        Its memory counts for `caller`. Give it to `release` in the end.
        """
        with self._lock:
            spare, self._spare = self._spare, None
        arena, account = spare or self._new()
        with self._lock:
            warm_bytes = account.byte_size
            self._count(account, -warm_bytes)
            account.caller = caller
            is_too_much = self._exceeded(account, warm_bytes) is not None
            self._count(account, warm_bytes)
            self._arenas[arena] = account
            self._start_warming()
        if is_too_much:
            arena.trim(0)
        return arena

    def release(self, arena: Arena) -> None:
        """Free an arena; no effect if it is free."""
        with self._lock:
            account = self._arenas.pop(arena, None)
            if account is not None:
                self._count_strays(account, 0)
        arena.close()

    def trim_idle(self) -> None:
        """Release most memory of arenas that have been idle for a while, and all stray bytes."""
        now = time.monotonic()
        for arena in self._lent():
            arena.scan_strays(drops=True)
            if arena.idle_seconds(now) >= IDLE_SECONDS:
                arena.trim(self._warm_bytes, blocking=False)

    def close(self) -> None:
        """Free all arenas, and stop keeping one ahead."""
        with self._lock:
            self._closed = True
            warming = self._warming
        if warming is not None:
            warming.join()
        self._drop_spare()
        for arena in self._lent():
            self.release(arena)

    def _new(self) -> tuple[Arena, _Account]:
        account = _Account()
        return Arena(
            self.session_bytes,
            lambda byte_size: self._grow(account, byte_size),
            lambda byte_size: self._shrink(account, byte_size),
        ), account

    def _lent(self, level: Level | None = None) -> list[Arena]:
        """Return the arenas that sessions have, of one level of callers if it is given."""
        with self._lock:
            return [
                arena
                for arena, account in self._arenas.items()
                if level is None or (account.caller and level in levels(account.caller))
            ]

    def _grow(self, account: _Account, byte_size: int) -> None:
        """Count bytes that an arena will back with memory; raises ResourceExhaustedError."""
        if byte_size >= LARGE:
            require_bytes(byte_size, "shared memory")
        if self._take(account, byte_size):
            return
        greedy = self._level_beyond_its_share(account, byte_size)
        # The calling arena holds its own lock, so this must not wait for the lock of another one.
        if greedy is None:
            with self._lock:  # Held while the thread is started.
                warming = self._warming
            if warming is not None and warming is not threading.current_thread():
                # The warm arena is for a session that may never come, and can be dropped.
                warming.join()
            self._drop_spare()
        # Callers beyond their shares take no memory that others keep warm.
        for arena in self._lent(greedy):
            arena.scan_strays(drops=True)
            arena.trim(0, blocking=False)
        if not self._take(account, byte_size):
            raise self._refusal(account, byte_size)

    def _level_beyond_its_share(self, account: _Account, byte_size: int) -> Level | None:
        """Return the level that may not have so many bytes more even if others had nothing."""
        with self._lock:
            level = self._exceeded(account, byte_size)
            if level is None:
                return None
            mine = self._use.used_by(level)
            return None if self._use.admits(level, byte_size, mine) else level

    def _refusal(self, account: _Account, byte_size: int) -> ResourceExhaustedError:
        """Return the error for an arena that may not have so many bytes more."""
        used = self.used_bytes
        with self._lock:
            level = self._exceeded(account, byte_size)
            # If nothing is free, all callers get the same error.
            if level is not None and used + byte_size <= self.max_bytes:
                noun = "bytes of shared memory"
                return self._use.refusal(level, byte_size, noun, _HINT)
        return ResourceExhaustedError(
            f"shared memory of all sessions may take {self.max_bytes} bytes, got {byte_size} "
            f"bytes more with {used} in use",
            hint=_HINT,
        )

    def _scan_strays(self) -> None:
        """Count bytes that clients have written beyond their parts."""
        for arena in self._lent():
            arena.scan_strays()
        with self._lock:
            for arena, account in self._arenas.items():
                self._count_strays(account, arena.stray_bytes)

    def _take(self, account: _Account, byte_size: int) -> bool:
        self._scan_strays()
        with self._lock:
            is_full = self._use.used + byte_size > self.max_bytes
            if is_full or self._exceeded(account, byte_size) is not None:
                return False
            self._count(account, byte_size)
            return True

    def _shrink(self, account: _Account, byte_size: int) -> None:
        with self._lock:
            self._count(account, -byte_size)

    def _exceeded(self, account: _Account, byte_size: int) -> Level | None:
        """Return the level of an arena's caller that may not have so many bytes. Under the lock."""
        return None if account.caller is None else self._use.exceeded(account.caller, byte_size)

    def _count(self, account: _Account, byte_size: int) -> None:
        """Count bytes more, or less if negative, for an arena. Under the lock."""
        account.byte_size += byte_size
        self._use.add(account.caller, byte_size)

    def _count_strays(self, account: _Account, byte_size: int) -> None:
        """Count so many bytes beyond an arena's parts for its caller. Under the lock."""
        if account.caller is not None:
            self._use.add(account.caller, byte_size - account.stray_bytes)
            account.stray_bytes = byte_size

    def _drop_spare(self) -> None:
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None:
            spare[0].close()

    def _start_warming(self) -> None:
        if self._warm_bytes and not (self._spare or self._warming or self._closed):
            with contextlib.suppress(ResourceExhaustedError):  # The next session finds a cold one.
                self._warming = start_thread(self._warm, "arena warming")

    def _warm(self) -> None:
        """Make the arena that is kept ahead."""
        spare: tuple[Arena, _Account] | None = None
        try:
            spare = self._new()
            spare[0].warm(self._warm_bytes)
        except (OSError, XlaError) as error:  # The next session finds a cold one, or none.
            _LOG.debug("no arena is kept ahead: %s", error)
            if spare is not None:
                spare[0].close()
            spare = None
        with self._lock:
            self._warming = None
            if not self._closed:
                self._spare, spare = spare, None
        if spare is not None:
            spare[0].close()
