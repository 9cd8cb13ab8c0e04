"""Counting semaphores of a session, and of all sessions together."""

import contextlib
import dataclasses
import sys
from collections import deque
from collections.abc import Callable, Iterator

from xla_contract.errors import ResourceExhaustedError
from xla_server.sessions.limits.shares.caller import LOCAL, Caller
from xla_server.sessions.limits.shares.fair_share import FairShare


@dataclasses.dataclass(eq=False)
class FairSemaphore:
    """A counting semaphore with a FIFO queue and a limit per session. Thread-safe.

    With `shared` the slots are those of all sessions, of which this session, of `caller`, may take
    at most `limit`.
    """

    limit: int
    _noun: str
    _hint: str
    _shared: FairShare = dataclasses.field(default_factory=lambda: FairShare(sys.maxsize))
    _caller: Caller = LOCAL

    def __post_init__(self) -> None:
        self.used = 0
        self._queue: deque[Callable[[], None]] = deque()

    def acquire(self) -> None:
        """Acquire a slot; raises ResourceExhaustedError when none is free."""
        shared = self._shared
        with shared.lock:
            mine, used = self.used, shared.used
            if mine >= self.limit:
                raise ResourceExhaustedError(
                    f"a session may have {self.limit} {self._noun}, got one more with {mine} there",
                    hint=self._hint,
                )
            shared.require(self._caller, self._noun, self._hint)
            if not shared.has_capacity(mine):
                raise ResourceExhaustedError(
                    f"all sessions may have {shared.limit} {self._noun}, and one of them no more "
                    f"than are left, got one more with {used} there, {mine} of them this session's",
                    hint=self._hint,
                )
            self._count(1)

    def acquire_async(self, callback: Callable[[], None]) -> None:
        """Acquire a slot as soon as one is free, then call `callback`.

        The callback may run in the thread that releases a slot: it must not raise or wait.
        """
        with self._shared.lock:
            self._queue.append(callback)
            ready = self._admitted()
        for each in ready:
            each()

    def release(self) -> None:
        """Release a slot, to the first in the queue that may have it."""
        shared = self._shared
        with shared.lock:
            self._count(-1)
            if not self._queue and not shared.held_up:
                return
            ready = self._admitted()
            for slots in list(shared.held_up):
                # One slot was released; other sessions get the next one.
                if ready or shared.used >= shared.limit:
                    break
                ready = slots._admitted()
        for each in ready:
            each()

    @contextlib.contextmanager
    def acquired(self) -> Iterator[None]:
        """Hold a slot for the block; raises as `acquire`."""
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def _admitted(self) -> list[Callable[[], None]]:
        """Return the callbacks of the queue that have a slot now. Under the lock."""
        ready: list[Callable[[], None]] = []
        shared, queue, held_up = self._shared, self._queue, self._shared.held_up
        while (
            queue
            and self.used < self.limit
            and shared.has_capacity(self.used)
            and shared.refusing(self._caller) is None
        ):
            self._count(1)
            ready.append(queue.popleft())
        held_up.pop(self, None)
        if queue and self.used < self.limit:
            # Sessions get slots in the order in which they came: this one goes to the end.
            held_up[self] = None
        return ready

    def _count(self, amount: int) -> None:
        """Count a slot as taken (1) or released (-1). Under the lock."""
        self.used += amount
        self._shared.add(self._caller, amount)
