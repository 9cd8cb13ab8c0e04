"""Ending of incomplete messages while memory is short.

grpc buffers a message and passes it on whole. Until then its size is unknown, so no quota counts
it, and clients that send many messages without their ends hold as much of the server's memory.
Known are the time for which a message has been arriving, or a stream silent, and the memory of the
process. While that exceeds its limit such calls are ended, as Envoy's overload manager resets
streams: those of the connection with most of them first.

Calls with one request are ended first, as their messages are certainly incomplete; then streams,
whose clients may just be silent.
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from xla_host import allocator
from xla_server.execution.start_thread import start
from xla_server.rpc.grpc_internals import EndableCalls
from xla_server.rpc.limits.connection_bytes import Received, received_bytes
from xla_server.rpc.limits.idle_streams import IdleStreams, IdleTimer
from xla_server.rpc.limits.slow_requests import SLOW_SECONDS, SlowRequests

_ROUND_SECONDS = 0.5
"""Seconds between two rounds: time for ended calls to release their memory."""

SPARED_SECONDS = 3 * SLOW_SECONDS
"""Seconds of short memory during which streams with calls in progress are ended last."""

_LOG = logging.getLogger(__name__)
_STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Resident bytes of this process, shared ones included; 0 if the system reports none."""
    try:
        pages = int(_STATM.read_text().split()[1])
    except (OSError, ValueError, IndexError):  # Not Linux.
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


class MemoryPressure:
    """Ends slow requests and silent streams while this process has more than `limit_bytes`.

    It runs in a thread, from `start` until `close`. No thread is started if the limit is 0, or the
    system does not report resident memory.
    """

    def __init__(
        self,
        expected: EndableCalls,
        silences: dict[IdleTimer, None],
        limit_bytes: int,
        *,
        resident: Callable[[], int] = resident_bytes,
        trim: Callable[[], object] = allocator.trim,
        received: Callable[[], dict[str, Received]] = received_bytes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._requests = SlowRequests(expected, clock)
        self._streams = IdleStreams(silences, received, clock)
        self._limit = limit_bytes
        self._resident = resident
        self._trim = trim
        self._clock = clock
        self._short_since: float | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory-pressure", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        if self._limit and self._resident():
            start(self._thread)

    def close(self) -> None:
        """Stop the thread."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def end_slow_calls(self) -> int:
        """End some of the slow calls if memory is short; return how many."""
        is_short = self._resident() > self._limit
        requests, streams = self._requests.update(), self._streams.update(is_short=is_short)
        used = self._used_too_much() if is_short and (requests or streams) else 0
        if not used:
            self._short_since = None
            return 0
        now = self._clock()
        is_first = self._short_since is None
        since = self._short_since = now if self._short_since is None else self._short_since
        ended = self._requests.end(used, self._limit)
        # A supply of new slow requests must not protect silent streams.
        if not (requests and is_first):
            ended += self._streams.end(
                used, self._limit, is_all_alike=now - since >= SPARED_SECONDS
            )
        facts = {
            "resident_bytes": used,
            "limit_bytes": self._limit,
            "slow_requests": requests,
            "silent_streams": streams,
        }
        _LOG.warning("memory is short, ended %d calls that send slowly", ended, extra=facts)
        return ended

    def _used_too_much(self) -> int:
        """The bytes that this process uses, if they exceed the limit; else 0."""
        # The allocator keeps free memory, also that of calls that were ended before.
        self._trim()
        used = self._resident()
        return used if used > self._limit else 0

    def _watch(self) -> None:
        while not self._closed.wait(_ROUND_SECONDS):
            try:
                self.end_slow_calls()
            except Exception:
                # A round that fails must not be the last.
                _LOG.exception("looking for calls that send slowly failed")
