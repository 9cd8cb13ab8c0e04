"""Waits for MPI without blocking in it.

MPI's own waits burn a core and cannot be ended.
"""

import os
import time
from collections.abc import Callable

LOOKS = 200
"""Polls of a thread that waits for a message, before it sleeps between polls."""

_YIELDS = 50
"""The same for a thread that only listens: each of its polls takes longer."""

_SHORTEST_SECONDS = 20e-6
_LONGEST_SECONDS = 2e-3
_GROWTH = 1.3
"""The first and the longest pause between looks, and the ratio of one pause to the one before.

A message is seen within 2 ms, and a rank that waits wakes 500 times a second at most.
"""


class BackOff:
    """The time between two looks, none for the first: longer the longer nothing happens."""

    def __init__(self, looks: int = _YIELDS) -> None:
        self._all_looks = looks
        self.reset()

    def reset(self) -> None:
        """Begin again: something has happened."""
        self._looks = 0
        self._seconds = _SHORTEST_SECONDS

    def next_seconds(self) -> float:
        """The time until the next look."""
        self._looks += 1
        if self._looks <= self._all_looks:
            return 0.0
        self._seconds = min(self._seconds * _GROWTH, _LONGEST_SECONDS)
        return self._seconds

    @property
    def is_waiting(self) -> bool:
        """True when nothing has happened for so long that there is time between looks."""
        return self._looks > self._all_looks

    def wait(self) -> None:
        """Let others run until the next look."""
        seconds = self.next_seconds()
        if seconds:
            time.sleep(seconds)
        else:
            # A sleep of no time takes as long as the shortest one.
            os.sched_yield()


def poll(is_over: Callable[[], bool], seconds: float) -> bool:
    """Look until something is over; False if it is not after so many seconds."""
    back_off = BackOff(LOOKS)
    end = time.monotonic() + seconds
    while not is_over():
        if time.monotonic() > end:
            return False
        back_off.wait()
    return True
