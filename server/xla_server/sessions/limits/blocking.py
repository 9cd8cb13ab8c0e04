"""Slots of thread pools, lent while the threads that have them are blocked.

A program that waits for a feed or a channel does so in its thread, which may be long, and one that
runs for long keeps its thread as well (`sessions.runs.time_slicing`). Meanwhile the pool may have
one thread more, so such programs do not block others.
"""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any, Protocol


class SlotPool(Protocol):
    """A pool of threads that can be one larger for a while."""

    def lend(self) -> bool:
        """Allow one thread more until `reclaim`; return False if that is impossible."""

    def reclaim(self) -> None:
        """End what one `lend` allowed."""


class Worker:
    """A thread of a pool, with the program that it runs; made in that thread."""

    __slots__ = ("_clock", "is_waiting", "pool", "time_slice")

    def __init__(self, pool: SlotPool | None) -> None:
        self.pool = pool
        self.time_slice: Any = None
        """The program it runs, if `sessions.runs.time_slicing` schedules it."""
        self.is_waiting = False
        """True if it waits for others, and has lent its slot."""
        self._clock = time.pthread_getcpuclockid(threading.get_ident())

    def processor_seconds(self) -> float:
        """Return the processor time of the thread in seconds; 0 if it has ended."""
        try:
            return time.clock_gettime(self._clock)
        except OSError:
            return 0.0


class _Here(threading.local):
    def __init__(self) -> None:
        self.worker = Worker(None)


_HERE = _Here()


def worker_context(pool: SlotPool) -> None:
    """Mark the calling thread, from now on, as one of a pool."""
    _HERE.worker = Worker(pool)


def current_worker() -> Worker:
    """The Worker of the calling thread; without a pool unless `worker_context` set one."""
    return _HERE.worker


@contextlib.contextmanager
def releasing_slot() -> Iterator[None]:
    """Lend the slot of the calling thread for the block, if it is a pool's thread."""
    worker = current_worker()
    time_slice, pool = worker.time_slice, worker.pool
    worker.is_waiting = True
    is_lent = (
        pool is not None and not (time_slice is not None and time_slice.is_lent) and pool.lend()
    )
    try:
        yield
    finally:
        worker.is_waiting = False
        if is_lent and pool is not None:
            pool.reclaim()
