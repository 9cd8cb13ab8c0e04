"""Places in pools of threads, lent while the threads that have them wait.

A program that waits for a feed or a channel does so in its thread, which may be long. Meanwhile
the pool may have one thread more: programs that wait keep no others from running.
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import Protocol


class Lender(Protocol):
    """A pool of threads that can be one larger for a while."""

    def lend(self) -> bool:
        """Be one thread larger, until `take_back`; False where that cannot be."""

    def take_back(self) -> None:
        """Be as large as before."""


_HERE = threading.local()


def work_for(pool: Lender) -> None:
    """Say that the thread that calls this is one of a pool's."""
    _HERE.pool = pool


@contextlib.contextmanager
def lent_place() -> Iterator[None]:
    """Lend the place of the calling thread, if it is one of a pool's, as long as the block."""
    pool: Lender | None = getattr(_HERE, "pool", None)
    if pool is None or not pool.lend():
        yield
        return
    try:
        yield
    finally:
        pool.take_back()
