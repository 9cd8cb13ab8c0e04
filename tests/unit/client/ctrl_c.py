"""Ctrl-C, pressed when the main thread has come to where it waits."""

import contextlib
import threading
from collections.abc import Callable

from tests.fault.plain import until
from tests.unit.waiting import Rest, is_in

_AGAIN = 20.0
"""Seconds after which a key is pressed again, far more than an interrupt takes to arrive."""


def press_in(function: str, press: Callable[[], object]) -> None:
    """Have a key pressed when the calling thread waits in a function of this name."""
    waiting = threading.current_thread()
    is_waiting = Rest(waiting)

    def is_there() -> bool:
        return is_in(waiting, function)

    def work() -> None:
        until(lambda: is_there() and is_waiting())
        press()
        # An interrupt that comes in a callback of the garbage collection is dropped: once more.
        with contextlib.suppress(AssertionError):
            until(lambda: not is_there(), _AGAIN)
            return
        press()

    threading.Thread(target=work, daemon=True).start()
