"""Cancellation of a thread's compilation, which calls `checkpoint` between its steps.

The steps are too many, and too far below the call, to hand each of them a `Cancellation`.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator


class _Here(threading.local):
    check: Callable[[], None] = staticmethod(lambda: None)


_HERE = _Here()


@contextlib.contextmanager
def cancellable(check: Callable[[], None]) -> Iterator[None]:
    """Have `checkpoint` call `check` in this thread, for the block."""
    before, _HERE.check = _HERE.check, check
    try:
        yield
    finally:
        _HERE.check = before


def checkpoint() -> None:
    """Raise the error that ends this thread's compilation, if it was cancelled."""
    _HERE.check()
