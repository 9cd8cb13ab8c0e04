"""Ctrl-C, pressed when the main thread has come to where it waits."""

import contextlib
import threading
import time
from collections.abc import Callable

from tests.fault.plain import until
from tests.unit.waiting import frames

_AGAIN = 20.0
"""Seconds after which a key is pressed again, far more than an interrupt takes to arrive."""


def press_in(function: str, press: Callable[[], object]) -> None:
    """Have a key pressed a moment after the calling thread has come to a function of this name."""
    waiting = threading.get_ident()

    def is_there() -> bool:
        frame = frames().get(waiting)
        while frame is not None and frame.f_code.co_name != function:
            frame = frame.f_back
        return frame is not None

    def work() -> None:
        until(is_there)
        time.sleep(0.05)
        press()
        # An interrupt that comes in a callback of the garbage collection is dropped: once more.
        with contextlib.suppress(AssertionError):
            until(lambda: not is_there(), _AGAIN)
            return
        press()

    threading.Thread(target=work, daemon=True).start()
