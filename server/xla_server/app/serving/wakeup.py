"""Signals and events of other threads, as one queue that the main thread reads."""

import os
import select
import signal
import threading
from collections.abc import Iterable
from types import FrameType
from typing import Self

TIMED_OUT = -1
"""The result of a wait that ends without a signal or event."""


class Events:
    """Signals and other events, numbers from 0 to 255, as bytes in a pipe. For the main thread.

    Python runs signal handlers in the main thread only, between two steps of its code; a thread
    that has just begun to wait for a lock may never get there. So the C handler writes the signal's
    number to the pipe, and a later read finds it. After the block the signals have no effect, as
    the process is ending already.
    """

    def __init__(self, signals: Iterable[signal.Signals]) -> None:
        self._signals = frozenset(signals)
        self._lock = threading.Lock()
        self._is_open = False

    def __enter__(self) -> Self:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._wakeup = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        for number in self._signals:
            signal.signal(number, _noted)
        self._is_open = True
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._wakeup)
        with self._lock:
            self._is_open = False
            os.close(self._reading)
            os.close(self._writing)

    def put(self, event: int) -> None:
        """Add an event that is no signal's number, from any thread; ignored after the end."""
        with self._lock:
            if self._is_open:
                os.write(self._writing, bytes([event]))

    def get(self, timeout: float | None = None) -> int:
        """Wait for the next signal or event; TIMED_OUT if none comes in `timeout` seconds."""
        while select.select([self._reading], [], [], timeout)[0]:
            (number,) = os.read(self._reading, 1)
            # Numbers of other signals are ignored; they are written if they have a handler.
            if number in self._signals or number not in _ALL:
                return int(number)
        return TIMED_OUT


_ALL = frozenset(signal.Signals)


def _noted(_: int, __: FrameType | None) -> None:
    """Do nothing: the byte in the pipe is enough, and without a handler the process would end."""
