"""Ctrl-C, pressed when the main thread has come to where it waits."""

import sys
import threading
import time
from collections.abc import Callable

from tests.fault.plain import until


def press_in(function: str, press: Callable[[], object]) -> None:
    """Have a key pressed a moment after the calling thread has come to a function of this name."""
    waiting = threading.get_ident()

    def is_there() -> bool:
        frame = sys._current_frames().get(waiting)
        while frame is not None and frame.f_code.co_name != function:
            frame = frame.f_back
        return frame is not None

    def work() -> None:
        until(is_there)
        time.sleep(0.05)
        press()

    threading.Thread(target=work, daemon=True).start()
