"""Waits for MPI without blocking in it.

MPI's own waits burn a core and cannot be ended.
"""

import time
from collections.abc import Callable

_YIELDS = 50
"""Looks that only let other threads run in between."""

_SHORTEST_SECONDS = 20e-6
_LONGEST_SECONDS = 2e-3
_GROWTH = 1.3


class BackOff:
    """The time between two looks: longer the longer nothing happens."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin again: something has happened."""
        self._looks = 0
        self._seconds = _SHORTEST_SECONDS

    def next_seconds(self) -> float:
        """The time until the next look."""
        self._looks += 1
        if self._looks <= _YIELDS:
            return 0.0
        self._seconds = min(self._seconds * _GROWTH, _LONGEST_SECONDS)
        return self._seconds


def poll(is_over: Callable[[], bool], seconds: float) -> bool:
    """Look until something is over; False if it is not after so many seconds."""
    back_off = BackOff()
    end = time.monotonic() + seconds
    while not is_over():
        if time.monotonic() > end:
            return False
        time.sleep(back_off.next_seconds())
    return True
