"""The time that a session may compile."""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

from xla_contract.errors import ResourceExhaustedError

COMPILE_WINDOW_SECONDS = 3600.0
"""The window over which the seconds of compiling are summed."""

_STEP_SECONDS = 1.0
"""Seconds of the window that share one sum: it bounds the sums that are kept, to 3,600 and a few,
whatever number of programs is compiled."""


class CompileBudget:
    """Seconds of compiling within the last hour. Thread-safe."""

    def __init__(self, limit: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self._clock = clock
        self._spent: deque[tuple[float, float]] = deque()
        """The number of each step in which compilations ended, and the seconds that they took."""
        self._lock = threading.Lock()

    @property
    def used(self) -> float:
        """Seconds spent within the window that ends now."""
        with self._lock:
            oldest = (self._clock() - COMPILE_WINDOW_SECONDS) // _STEP_SECONDS
            while self._spent and self._spent[0][0] < oldest:
                self._spent.popleft()
            return sum(seconds for _, seconds in self._spent)

    def require(self, rule: str = "") -> None:
        """Raise ResourceExhaustedError, with the rule, when the budget is spent."""
        used = self.used
        if used >= self.limit:
            rule = rule or f"a session may compile for {self.limit:g} s"
            raise ResourceExhaustedError(
                f"{rule} within an hour, got another program after {used:.1f} s",
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
            step, seconds = ended // _STEP_SECONDS, ended - started
            with self._lock:
                if self._spent and self._spent[-1][0] == step:
                    seconds += self._spent.pop()[1]
                self._spent.append((step, seconds))
