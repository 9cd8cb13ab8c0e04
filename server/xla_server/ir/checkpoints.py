"""Cancellation of a compilation or an evaluation: its thread checks now and then for it.

The steps are too many, and too deep below the call, to pass a `Cancellation` to each of them.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator


class _Here(threading.local):
    check: Callable[[], None] = staticmethod(lambda: None)


_HERE = _Here()


@contextlib.contextmanager
def cancellable(check: Callable[[], None]) -> Iterator[None]:
    """Let `checkpoint` call `check`, which may raise, in this thread during the block."""
    before, _HERE.check = _HERE.check, check
    try:
        yield
    finally:
        _HERE.check = before


def checkpoint() -> None:
    """Raise the error that ends this thread's compilation or evaluation, if it was cancelled."""
    _HERE.check()
