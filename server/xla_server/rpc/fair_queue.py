"""A queue of jobs that callers take turns in."""

import queue
import sys
import threading
from collections import OrderedDict, deque
from typing import Protocol

from xla_server.sessions.caller import LOCAL, Caller
from xla_server.sessions.caller_shares import CallerShares, Level, levels


class HasCaller(Protocol):
    """A job of somebody."""

    caller: Caller | None


class FairQueue:
    """Jobs for a pool of threads. Any thread may use it.

    Identities take turns, and the connections of each; jobs of one connection stay in order. No
    caller has more than its share of the threads at the same time, so that one is left for others
    where there are several.

    Args:
        threads: How many threads there are.
        shares: The largest shares of them that one caller may have.
    """

    def __init__(self, threads: int, shares: CallerShares) -> None:
        self._threads = threads
        self._shares = shares
        self._waiting: OrderedDict[str, OrderedDict[str, deque[HasCaller]]] = OrderedDict()
        self._running: dict[Level, int] = {}
        self._ends = 0
        self._changed = threading.Condition()

    def put(self, job: "HasCaller | None") -> None:
        """Append a job; None ends one thread when no job waits."""
        with self._changed:
            if job is None:
                self._ends += 1
            else:
                caller = job.caller or LOCAL
                connections = self._waiting.setdefault(caller.identity, OrderedDict())
                connections.setdefault(caller.connection, deque()).append(job)
            self._changed.notify()

    def get(self) -> "HasCaller | None":
        """Take the next job, which runs until `done`; waits for one. Gives None to end a thread."""
        with self._changed:
            while True:
                job = self._next(is_limited=True)
                if job is not None:
                    self._count(job, 1)
                    return job
                if self._ends and not self._waiting:
                    self._ends -= 1
                    return None
                self._changed.wait()

    def get_nowait(self) -> "HasCaller | None":
        """Take a job that is not to run; raises queue.Empty when none waits."""
        with self._changed:
            job = self._next(is_limited=False)
        if job is None:
            raise queue.Empty
        return job

    def done(self, job: HasCaller) -> None:
        """Say that a job has ended."""
        with self._changed:
            self._count(job, -1)
            self._changed.notify_all()

    def _next(self, *, is_limited: bool) -> HasCaller | None:
        """Take out the next job that may run. Under the lock."""
        for identity, connections in self._waiting.items():
            if is_limited and self._has_all("identity", identity):
                continue
            for connection, jobs in connections.items():
                if is_limited and self._has_all("connection", connection):
                    continue
                job = jobs.popleft()
                # Whoever had a turn stands behind all others.
                connections.move_to_end(connection)
                self._waiting.move_to_end(identity)
                if not jobs:
                    del connections[connection]
                if not connections:
                    del self._waiting[identity]
                return job
        return None

    def _has_all(self, kind: str, name: str) -> bool:
        """Return whether a caller has all threads that it may have. Under the lock."""
        share = self._shares.of(kind)
        limit = max(1, int(share * self._threads)) if share < 1 else sys.maxsize
        return bool(name) and self._running.get((kind, name), 0) >= limit

    def _count(self, job: HasCaller, amount: int) -> None:
        for level in levels(job.caller or LOCAL):
            running = self._running.get(level, 0) + amount
            if running:
                self._running[level] = running
            else:
                del self._running[level]
