"""Calls from several threads at the same time."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_threads(work: Callable[[T], R], arguments: Iterable[T]) -> list[R]:
    """Return the results of `work` for each argument, each in a thread of its own.

    The calls begin when all threads have. Raises the first error when all have ended.
    """
    each = list(arguments)
    begun = threading.Barrier(len(each))

    def begin(argument: T) -> R:
        begun.wait(100)
        return work(argument)

    with ThreadPoolExecutor(len(each)) as threads:
        return list(threads.map(begin, each))
