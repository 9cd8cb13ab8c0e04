"""Threads that wait for another, shown by where they are and not by how long they take."""

import gc
import sys
import threading
from types import FrameType

from tests.fault.plain import until


def waits(thread: threading.Thread) -> bool:
    """Wait until a thread waits for a condition or has ended; return whether it waits."""

    def is_waiting() -> bool:
        frame = frames().get(thread.ident or 0)
        where = None if frame is None else (frame.f_code.co_filename, frame.f_code.co_name)
        return where == (threading.__file__, "wait")

    until(lambda: not thread.is_alive() or is_waiting())
    return thread.is_alive()


def frames() -> dict[int, FrameType]:
    """Return the frame of each thread.

    Python before 3.11.9 holds a lock of the interpreter here. A garbage collection then would
    run finalizers, which let other threads run, and one that ends then waits for the lock for ever
    with the global interpreter lock in its hands (python/cpython#106883).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if was_enabled:
            gc.enable()
