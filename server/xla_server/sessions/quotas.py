"""What one session may have, and the counters that hold it to that."""

import contextlib
import dataclasses
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

from xla_contract.errors import ResourceExhaustedError

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


class Slots:
    """Places for what happens at the same time. Any thread may use it."""

    def __init__(self, limit: int, noun: str, hint: str) -> None:
        self.limit = limit
        self.used = 0
        self._noun = noun
        self._hint = hint
        self._line: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()

    def take(self) -> None:
        """Take a place; raises ResourceExhaustedError when there is none."""
        with self._lock:
            if self.used >= self.limit:
                raise ResourceExhaustedError(
                    f"a session may have {self.limit} {self._noun}, got one more with "
                    f"{self.used} there",
                    hint=self._hint,
                )
            self.used += 1

    def take_in_turn(self, callback: Callable[[], None]) -> None:
        """Take a place as soon as there is one, and then call back.

        That may be in the thread of who leaves the place: the callback must not raise or wait.
        """
        with self._lock:
            is_free = self.used < self.limit
            if is_free:
                self.used += 1
            else:
                self._line.append(callback)
        if is_free:
            callback()

    def give_back(self) -> None:
        """Leave a place, to the first in line if there is one."""
        with self._lock:
            following = self._line.popleft() if self._line else None
            if following is None:
                self.used -= 1
        if following is not None:
            following()

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """A place as long as the block; raises as `take` does."""
        self.take()
        try:
            yield
        finally:
            self.give_back()


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
