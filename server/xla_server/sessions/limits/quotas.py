"""What one session may have, and the counters that hold it to that."""

import contextlib
import dataclasses
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

from xla_contract.errors import ResourceExhaustedError
from xla_server.sessions.limits.caller import LOCAL, Caller
from xla_server.sessions.limits.caller_shares import EVERYTHING, CallerShares, CallerUse, Level
from xla_server.sessions.limits.fair_share import FairShare

COMPILE_WINDOW_SECONDS = 3600.0
"""The time over which a session's compiling is added up."""


@dataclasses.dataclass(frozen=True, slots=True)
class Quotas:
    """Limits of one session."""

    device_bytes: int
    handles: int = 1_000_000
    queued_items: int = 128
    queued_bytes: int = 256 * 2**20
    concurrent_executions: int = 64
    launched_executions: int = 1024
    compile_seconds: float = 1800.0
    answer_bytes: int = 2**30


class FairSemaphore:
    """Places for what happens at the same time. Any thread may use it.

    With `shared` they are places of all sessions, of which this one, of `caller`, may take `limit`
    at most.
    """

    def __init__(
        self,
        limit: int,
        noun: str,
        hint: str,
        shared: "SharedSemaphore | None" = None,
        caller: Caller = LOCAL,
    ) -> None:
        self.limit = limit
        self.used = 0
        self._noun = noun
        self._hint = hint
        self._shared = SharedSemaphore(sys.maxsize) if shared is None else shared
        self._shares = self._shared.shares
        self._caller = caller
        self._line: deque[Callable[[], None]] = deque()

    def take(self) -> None:
        """Take a place; raises ResourceExhaustedError when there is none."""
        shares = self._shares
        with shares.lock:
            mine, used = self.used, shares.used
            exceeded = self._shared.exceeded(self._caller)
            if mine < self.limit and shares.has_room(mine) and exceeded is None:
                self._count(1)
                return
        if mine >= self.limit:
            raise ResourceExhaustedError(
                f"a session may have {self.limit} {self._noun}, got one more with {mine} there",
                hint=self._hint,
            )
        if exceeded is not None:
            raise self._shared.refusal(exceeded, self._noun, self._hint)
        raise ResourceExhaustedError(
            f"all sessions may have {shares.limit} {self._noun}, and one of them no more than are "
            f"left, got one more with {used} there, {mine} of them this session's",
            hint=self._hint,
        )

    def take_in_turn(self, callback: Callable[[], None]) -> None:
        """Take a place as soon as there is one, and then call back.

        That may be in the thread of who leaves a place: the callback must not raise or wait.
        """
        with self._shares.lock:
            self._line.append(callback)
            ready = self._admitted()
        for each in ready:
            each()

    def give_back(self) -> None:
        """Leave a place, to the first in line if there is one who may have it."""
        shares = self._shares
        with shares.lock:
            self._count(-1)
            if not self._line and not self._shared.held_up:
                return
            ready = self._admitted()
            for slots in list(self._shared.held_up):
                # One place was left; the others are asked at the next.
                if ready or shares.used >= shares.limit:
                    break
                ready = slots._admitted()
        for each in ready:
            each()

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """A place as long as the block; raises as `take` does."""
        self.take()
        try:
            yield
        finally:
            self.give_back()

    def _admitted(self) -> list[Callable[[], None]]:
        """Those in line who have a place now. Under the lock."""
        ready: list[Callable[[], None]] = []
        shares, line, held_up = self._shares, self._line, self._shared.held_up
        while (
            line
            and self.used < self.limit
            and shares.has_room(self.used)
            and self._shared.exceeded(self._caller) is None
        ):
            self._count(1)
            ready.append(line.popleft())
        held_up.pop(self, None)
        if line and self.used < self.limit:
            # At the end: who was here first is asked first.
            held_up[self] = None
        return ready

    def _count(self, amount: int) -> None:
        """Count a slot taken or left. Under the lock."""
        self.used += amount
        self._shares.used += amount
        self._shared.use.add(self._caller, amount)


class SharedSemaphore:
    """Places of all sessions, and those sessions in whose lines others of theirs would be next."""

    def __init__(
        self, limit: int, reserve: int = 0, caller_shares: CallerShares = EVERYTHING
    ) -> None:
        self.shares = FairShare(limit, reserve)
        self.use = CallerUse(caller_shares)
        """The use of each caller; under the lock of `shares`."""
        self.held_up: dict[FairSemaphore, None] = {}
        """Sessions that wait for places of others; changed under the lock of `shares`."""

    def exceeded(self, caller: Caller) -> Level | None:
        """Return the level of a caller that may not have one more. Under the lock."""
        shares = self.shares
        return self.use.exceeded(caller, 1, shares.used, shares.limit, shares.reserve)

    def refusal(self, level: Level, noun: str, hint: str) -> ResourceExhaustedError:
        """Return the error for a level that `exceeded` gave."""
        with self.shares.lock:
            return self.use.refusal(level, 1, self.shares.used, self.shares.limit, noun, hint)


class CompileBudget:
    """Seconds of compiling within the last hour. Any thread may use it."""

    def __init__(self, limit: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self._clock = clock
        self._spent: deque[tuple[float, float]] = deque()
        self._lock = threading.Lock()

    @property
    def used(self) -> float:
        """Seconds spent within the window that ends now."""
        with self._lock:
            oldest = self._clock() - COMPILE_WINDOW_SECONDS
            while self._spent and self._spent[0][0] < oldest:
                self._spent.popleft()
            return sum(seconds for _, seconds in self._spent)

    def require(self) -> None:
        """Raise ResourceExhaustedError when the budget is spent."""
        used = self.used
        if used >= self.limit:
            raise ResourceExhaustedError(
                f"a session may compile for {self.limit:g} s within an hour, got another program "
                f"after {used:.1f} s",
                hint="Run programs that are compiled, or wait.",
            )

    @contextlib.contextmanager
    def spending(self) -> Iterator[None]:
        """Count the time of the block."""
        started = self._clock()
        try:
            yield
        finally:
            ended = self._clock()
            with self._lock:
                self._spent.append((ended, ended - started))
