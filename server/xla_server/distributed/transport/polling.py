"""Waits for MPI by polling.

MPI's own blocking calls keep a core busy and cannot be cancelled.
"""

import os
import time
from collections.abc import Callable

POLLS = 200
"""Number of polls, by a thread that waits for a message, before it sleeps between polls."""

_YIELDS = 50
"""The same for a thread that only listens: fewer, as each of its polls takes longer."""

_SHORTEST_SECONDS = 20e-6
_LONGEST_SECONDS = 2e-3
_GROWTH = 1.3
"""The first and the longest sleep between polls, and the factor between successive ones.

So a message is noticed within 2 ms, and a waiting rank wakes at most 500 times a second.
"""


class BackOff:
    """Exponential back-off between polls: no pause for the first `polls`, then growing ones."""

    def __init__(self, polls: int = _YIELDS) -> None:
        self._max_polls = polls
        self.reset()

    def reset(self) -> None:
        """Start over without pauses, as something has happened."""
        self._polls = 0
        self._seconds = _SHORTEST_SECONDS

    def next_seconds(self) -> float:
        """Return the pause before the next poll, in seconds, and count that poll."""
        self._polls += 1
        if self._polls <= self._max_polls:
            return 0.0
        self._seconds = min(self._seconds * _GROWTH, _LONGEST_SECONDS)
        return self._seconds

    @property
    def is_waiting(self) -> bool:
        """True once there are pauses between polls, as nothing has happened for long."""
        return self._polls > self._max_polls

    def wait(self) -> None:
        """Pause before the next poll, letting other threads run."""
        seconds = self.next_seconds()
        if seconds:
            time.sleep(seconds)
        else:
            # A sleep of 0 s takes as long as the shortest real one.
            os.sched_yield()


def poll(is_over: Callable[[], bool], seconds: float) -> bool:
    """Poll until `is_over`; return False if that takes longer than `seconds`."""
    back_off = BackOff(POLLS)
    end = time.monotonic() + seconds
    while not is_over():
        if time.monotonic() > end:
            return False
        back_off.wait()
    return True
