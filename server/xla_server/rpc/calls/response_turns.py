"""Turns for making large responses.

Making a response of megabytes keeps a core busy, with a page fault for each of its pages. A client
that requests many at the same time, read or not, would occupy all cores. So a process makes one at
a time, and connections take turns: a request waits for at most one response of each other
connection. While a thread waits, its pool may have one thread more.
"""

import contextlib
import dataclasses
import threading
from collections.abc import Iterator

from xla_server.rpc.threads.fair_queue import FairQueue
from xla_server.sessions.limits.blocking import releasing_slot
from xla_server.sessions.limits.shares.caller import Flow


@dataclasses.dataclass(slots=True, eq=False)
class _Waiting:
    flow: Flow
    is_next: threading.Event = dataclasses.field(default_factory=threading.Event)


class ResponseTurns:
    """One turn at a time, by identity and connection. Thread-safe."""

    def __init__(self) -> None:
        self._waiting = FairQueue[_Waiting](1)
        self._is_taken = False
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """Number of threads that wait for a turn."""
        return len(self._waiting)

    @contextlib.contextmanager
    def turn(self, flow: Flow) -> Iterator[None]:
        """Hold the turn for the block, after waiting for the thread that has it."""
        waiting = self._wanted(flow)
        if waiting is not None:
            with releasing_slot():
                waiting.is_next.wait()
        try:
            yield
        finally:
            self._pass_on()

    def _wanted(self, flow: Flow) -> _Waiting | None:
        """Take the turn, or else wait in the queue."""
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return None
            waiting = _Waiting(flow)
            self._waiting.append(waiting)
            return waiting

    def _pass_on(self) -> None:
        with self._lock:
            next_waiting = self._waiting.pop()
            if next_waiting is None:
                self._is_taken = False
            else:
                # The queue counts running threads; `_is_taken` represents the one turn.
                self._waiting.done(next_waiting)
                next_waiting.is_next.set()


ANSWER_TURNS = ResponseTurns()
"""The turns of this process: all its servers share its cores and Python's lock."""
