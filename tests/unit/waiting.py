"""Threads that wait for another, shown by where they are and not by how long they take."""

import sys
import threading

from tests.fault.plain import until


def waits(thread: threading.Thread) -> bool:
    """Wait until a thread waits for a condition or has ended; return whether it waits."""

    def is_waiting() -> bool:
        frame = sys._current_frames().get(thread.ident or 0)
        where = None if frame is None else (frame.f_code.co_filename, frame.f_code.co_name)
        return where == (threading.__file__, "wait")

    until(lambda: not thread.is_alive() or is_waiting())
    return thread.is_alive()
