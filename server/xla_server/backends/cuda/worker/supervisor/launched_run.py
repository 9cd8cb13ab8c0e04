"""Runs whose results other runs may have as parameters before they are computed.

The worker lets the stream of such a run wait for the stream of the launched one. The server frees
no memory that the launched run uses, and reads none of its results, before it has ended.
"""

import collections
import contextlib
import threading


class LaunchedRun:
    """A launched run of a worker, by its `number` there. Any thread may use it.

    Memory that is freed before its end is added to `freed` at its end.
    """

    def __init__(self, number: int, freed: collections.deque[int]) -> None:
        self.number = number
        self._freed = freed
        self._held_back: collections.deque[int] = collections.deque()
        self._is_over = threading.Event()

    @property
    def is_over(self) -> bool:
        """Return whether no work of the run is left."""
        return self._is_over.is_set()

    def wait(self) -> None:
        """Wait until no work of the run is left."""
        self._is_over.wait()

    def end(self) -> None:
        """Declare the run over, whether it succeeded or failed."""
        self._is_over.set()
        self._release()

    def free(self, address: int) -> None:
        """Free memory that the run may still use."""
        # The garbage collector may call it at any point, so no lock. Either `end` finds the
        # address, or the run is over here.
        self._held_back.append(address)
        if self.is_over:
            self._release()

    def _release(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self._freed.append(self._held_back.popleft())
