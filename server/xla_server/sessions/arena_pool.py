"""The arenas of all sessions, within one limit."""

import logging
import threading
import time

from xla_contract.errors import ResourceExhaustedError, XlaError
from xla_server.evaluator.memory import LARGE, require_bytes
from xla_server.sessions.arena import Arena
from xla_server.sessions.free_list import PAGE

_LOG = logging.getLogger(__name__)

WARM_BYTES = 64 << 20
"""Bytes that the next arena is warmed with, and that an idle one keeps."""

IDLE_SECONDS = 10.0
"""How long an arena without allocations keeps all its memory."""


class ArenaPool:
    """Arenas of `session_bytes` each that together have no more than `max_bytes` of memory.

    Any thread may call any method. One arena is kept ahead, warm, from the moment the first one is
    taken: a server without such clients pays nothing.
    """

    def __init__(self, *, max_bytes: int, session_bytes: int, warm_bytes: int = WARM_BYTES) -> None:
        self.max_bytes = max_bytes
        self.session_bytes = min(session_bytes, max_bytes) // PAGE * PAGE
        self._warm_bytes = min(warm_bytes, self.session_bytes) // PAGE * PAGE
        self._arenas: set[Arena] = set()
        self._spare: Arena | None = None
        self._warming: threading.Thread | None = None
        self._used = 0
        self._closed = False
        self._lock = threading.Lock()

    @property
    def used_bytes(self) -> int:
        """Bytes of memory behind all arenas, the one kept ahead included."""
        return self._used + self._stray_bytes()

    @property
    def lent_bytes(self) -> int:
        """Bytes of memory behind the arenas that sessions have."""
        with self._lock:
            return sum(arena.backed_bytes for arena in self._arenas)

    @property
    def is_warming(self) -> bool:
        """Whether the next arena is being made."""
        return self._warming is not None

    def __len__(self) -> int:
        """How many arenas sessions have."""
        return len(self._arenas)

    def acquire(self) -> Arena:
        """An arena nobody has had before; raises OSError where the system gives none.

        Give it to `release` in the end.
        """
        with self._lock:
            arena, self._spare = self._spare, None
        if arena is None:
            arena = self._new()
        with self._lock:
            self._arenas.add(arena)
            self._start_warming()
        return arena

    def release(self, arena: Arena) -> None:
        """Free an arena; harmless when it is free."""
        with self._lock:
            self._arenas.discard(arena)
        arena.close()

    def trim_idle(self) -> None:
        """Take most of the memory of arenas that have been idle for a while.

        And of all what clients have written beyond their parts.
        """
        now = time.monotonic()
        for arena in self._lent():
            arena.drop_strays()
            if arena.idle_seconds(now) >= IDLE_SECONDS:
                arena.trim(self._warm_bytes, blocking=False)

    def close(self) -> None:
        """Free all arenas; none is kept ahead any more."""
        with self._lock:
            self._closed = True
            warming = self._warming
        if warming is not None:
            warming.join()
        self._drop_spare()
        for arena in self._lent():
            self.release(arena)

    def _new(self) -> Arena:
        return Arena(self.session_bytes, self._grow, self._shrink)

    def _lent(self) -> list[Arena]:
        with self._lock:
            return list(self._arenas)

    def _grow(self, byte_size: int) -> None:
        """Count bytes that an arena will back with memory; raises ResourceExhaustedError."""
        if byte_size >= LARGE:
            require_bytes(byte_size, "shared memory")
        if self._take(byte_size):
            return
        # The arena that asks holds its own lock, so nothing here may wait for another's.
        with self._lock:  # In which it is started.
            warming = self._warming
        if warming is not None and warming is not threading.current_thread():
            # It is for a session that may never come, and can be dropped once it is made.
            warming.join()
        self._drop_spare()
        for arena in self._lent():
            arena.drop_strays()
            arena.trim(0, blocking=False)
        if not self._take(byte_size):
            raise ResourceExhaustedError(
                f"shared memory of all sessions may take {self.max_bytes} bytes, got {byte_size} "
                f"bytes more with {self.used_bytes} in use",
                hint="Transfer in chunks, or raise shared_memory_bytes.",
            )

    def _stray_bytes(self) -> int:
        """Bytes that clients have written beyond their parts."""
        lent = self._lent()
        for arena in lent:
            arena.look()
        return sum(arena.stray_bytes for arena in lent)

    def _take(self, byte_size: int) -> bool:
        strays = self._stray_bytes()
        with self._lock:
            if self._used + strays + byte_size > self.max_bytes:
                return False
            self._used += byte_size
            return True

    def _shrink(self, byte_size: int) -> None:
        with self._lock:
            self._used -= byte_size

    def _drop_spare(self) -> None:
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None:
            spare.close()

    def _start_warming(self) -> None:
        if self._warm_bytes and not (self._spare or self._warming or self._closed):
            self._warming = threading.Thread(target=self._warm, name="arena warming", daemon=True)
            self._warming.start()

    def _warm(self) -> None:
        """Make the arena that is kept ahead."""
        arena: Arena | None = None
        try:
            arena = self._new()
            arena.warm(self._warm_bytes)
        except (OSError, XlaError) as error:  # The next session finds a cold one, or none.
            _LOG.debug("no arena is kept ahead: %s", error)
            if arena is not None:
                arena.close()
            arena = None
        with self._lock:
            self._warming = None
            if not self._closed:
                self._spare, arena = arena, None
        if arena is not None:
            arena.close()
