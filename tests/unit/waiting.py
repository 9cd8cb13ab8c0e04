"""Threads that wait for another, shown by where they are and not by how long they take."""

import gc
import sys
import threading
from pathlib import Path
from types import FrameType

from tests.fault.plain import until


class Rest:
    """The question whether threads wait: Linux has let none of them run since the last query.

    One that waits for the interpreter's lock runs between two questions, as `until` sleeps there.
    """

    def __init__(self, *threads: threading.Thread) -> None:
        self._threads = threads
        self._before: list[list[str]] = []

    def __call__(self) -> bool:
        """Return whether all wait that have not ended."""
        now = [_schedule(each) for each in self._threads if each.is_alive()]
        is_same, self._before = now == self._before, now
        return is_same and all("S" in each[0] for each in now)


def _schedule(thread: threading.Thread) -> list[str]:
    """Return the state of a thread, as a letter first of all, and how often it was interrupted."""
    try:
        lines = Path(f"/proc/self/task/{thread.native_id}/status").read_text().splitlines()
    except OSError:  # It has ended.
        return ["X"]
    values = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    names = ("State", "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
    return [values[name] for name in names]


def waits(thread: threading.Thread) -> bool:
    """Wait until a thread waits for another or has ended; return whether it waits."""
    is_waiting = Rest(thread)
    until(lambda: not thread.is_alive() or is_waiting())
    return thread.is_alive()


def is_in(thread: threading.Thread, function: str) -> bool:
    """Return whether a thread executes a function of this name, or one that it calls."""
    frame = frames().get(thread.ident or 0)
    while frame is not None and frame.f_code.co_name != function:
        frame = frame.f_back
    return frame is not None


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
