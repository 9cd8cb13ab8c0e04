"""A watchdog for streams of Converse whose reading thread is busy, and for deadlines of calls.

Waking a thread for every call would cost more than a small call itself. So one thread polls all
streams a few hundred times a second while calls are in progress, and sleeps otherwise.
"""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Protocol

from xla_server.execution.start_thread import start_thread

_PERIOD = 0.002
"""Seconds between two polls; a thread that was answering at both is busy."""

_IDLE_POLLS = 50
"""Polls without a call in progress before the watchdog sleeps."""


class MonitoredStream(Protocol):
    """A stream, as the watchdog sees it."""

    answering: int

    def hand_over(self, number: int) -> None:
        """Have another thread read the stream, unless the request with this number was answered."""

    def end_late_calls(self, now: float) -> float | None:
        """End calls whose deadline has passed; return the next deadline."""


class StreamWatchdog:
    """One thread for all streams, which runs while there is a stream. Thread-safe."""

    def __init__(self) -> None:
        self.is_asleep = False
        """True if it must be woken for a new call."""
        self._seen: dict[MonitoredStream, int] = {}
        self._thread: threading.Thread | None = None
        self._woken = threading.Event()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def watching(self, stream: MonitoredStream) -> Iterator[None]:
        """Watch a stream for the block; raises as `start_thread`."""
        with self._lock:
            if self._thread is None:
                self._thread = start_thread(self._watch, "xla-conversations")
            self._seen[stream] = 0
        try:
            yield
        finally:
            with self._lock:
                del self._seen[stream]
            self.wake()

    def wake(self) -> None:
        """Start polling, now and for a while."""
        self._woken.set()

    def _watch(self) -> None:
        idle_polls = 0
        while True:
            with self._lock:
                streams = list(self._seen.items())
                if not streams:
                    self._thread = None
                    return
            is_busy, deadline = self._poll(streams)
            idle_polls = 0 if is_busy else idle_polls + 1
            if idle_polls < _IDLE_POLLS:
                time.sleep(_PERIOD)
                continue
            self._sleep(streams, deadline)
            idle_polls = 0

    def _sleep(self, streams: list[tuple[MonitoredStream, int]], deadline: float | None) -> None:
        self._woken.clear()
        self.is_asleep = True
        # A call that began before this thread set `is_asleep` has not woken it.
        if not any(stream.answering for stream, _ in streams):
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            # Clients choose deadlines, so no thread may wait for each.
            self._woken.wait(None if left is None else min(left, threading.TIMEOUT_MAX))
        self.is_asleep = False

    def _poll(self, streams: list[tuple[MonitoredStream, int]]) -> tuple[bool, float | None]:
        now = time.monotonic()
        is_busy = False
        next_deadline = None
        for stream, seen in streams:
            number = stream.answering
            deadline = stream.end_late_calls(now)
            if deadline is not None and (next_deadline is None or deadline < next_deadline):
                next_deadline = deadline
            if not number:
                continue
            is_busy = True
            if number == seen:
                stream.hand_over(number)
            elif stream in self._seen:
                with self._lock:
                    if stream in self._seen:
                        self._seen[stream] = number
        return is_busy, next_deadline
