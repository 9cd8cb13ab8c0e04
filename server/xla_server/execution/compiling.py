"""Cancellation of a thread's compilation, which asks between its steps whether it is to go on.

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
    """Let this thread's compilation in the block end with what `check` raises."""
    before, _HERE.check = _HERE.check, check
    try:
        yield
    finally:
        _HERE.check = before


def checkpoint() -> None:
    """Raise what ends this thread's compilation, if something is to."""
    _HERE.check()
