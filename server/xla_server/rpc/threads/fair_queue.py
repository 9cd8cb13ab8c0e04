"""A queue of jobs in which callers take turns."""

import sys
from collections import OrderedDict, deque
from typing import Generic, Protocol, TypeVar

from xla_server.sessions.limits.shares.caller import Flow
from xla_server.sessions.limits.shares.caller_shares import EVERYTHING, CallerShares, Level


class HasFlow(Protocol):
    """A job of a flow."""

    @property
    def flow(self) -> Flow:
        """Identity, connection and session of the job."""


J = TypeVar("J", bound=HasFlow)


class FairQueue(Generic[J]):
    """Jobs that wait for one of `threads` threads. Not thread-safe.

    Identities take turns, then the connections of each, then their sessions; jobs of one session
    stay in order. So of n identities with jobs each has every n-th thread that becomes free,
    however many jobs it has.

    No caller has more than its share of the threads at the same time, so that, of several, one is
    left for others.

    Args:
        threads: Number of threads.
        shares: The largest shares of them that one caller may have.
    """

    def __init__(self, threads: int, shares: CallerShares = EVERYTHING) -> None:
        self._limits = {
            kind: max(1, int(share * threads)) if (share := shares.of(kind)) < 1 else sys.maxsize
            for kind in ("identity", "connection")
        }
        if self._limits["connection"] < sys.maxsize:
            # Rounded down, both may be equal: then nothing would be left of an identity's share.
            beside = max(1, self._limits["identity"] - 1)
            self._limits["connection"] = min(self._limits["connection"], beside)
        self._is_limited = min(self._limits.values()) < sys.maxsize
        self._waiting: OrderedDict[str, OrderedDict[str, OrderedDict[str, deque[J]]]] = (
            OrderedDict()
        )
        self._running: dict[Level, int] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, job: J) -> None:
        """Append a job behind those of its session."""
        identity, connection, session = job.flow
        connections = self._waiting.setdefault(identity, OrderedDict())
        sessions = connections.setdefault(connection, OrderedDict())
        sessions.setdefault(session, deque()).append(job)
        self._length += 1

    def start(self, job: J) -> bool:
        """Count a job as running, until `done`; False if its caller has its whole share."""
        if not self._is_limited:
            return True
        is_at_limit = any(map(self._is_at_limit, ("identity", "connection"), job.flow))
        if not is_at_limit:
            self._count(job.flow, 1)
        return not is_at_limit

    def pop(self) -> J | None:
        """Remove the next job that may run, and count it until `done`; None if none may."""
        for identity, connections in self._waiting.items():
            if self._is_at_limit("identity", identity):
                continue
            for connection, sessions in connections.items():
                if self._is_at_limit("connection", connection):
                    continue
                return self._popped(identity, connection, next(iter(sessions)))
        return None

    def pop_all(self) -> list[J]:
        """Remove all jobs, which will not run."""
        jobs = [
            job
            for connections in self._waiting.values()
            for sessions in connections.values()
            for waiting in sessions.values()
            for job in waiting
        ]
        self._waiting.clear()
        self._length = 0
        return jobs

    def done(self, job: J) -> None:
        """Count a running job as ended."""
        if self._is_limited:
            self._count(job.flow, -1)

    def _popped(self, identity: str, connection: str, session: str) -> J:
        connections = self._waiting[identity]
        sessions = connections[connection]
        job = sessions[session].popleft()
        self._length -= 1
        # A flow that had a turn goes behind all others.
        sessions.move_to_end(session)
        connections.move_to_end(connection)
        self._waiting.move_to_end(identity)
        if not sessions[session]:
            del sessions[session]
        if not sessions:
            del connections[connection]
        if not connections:
            del self._waiting[identity]
        if self._is_limited:
            self._count(job.flow, 1)
        return job

    def _is_at_limit(self, kind: str, name: str) -> bool:
        return bool(name) and self._running.get((kind, name), 0) >= self._limits[kind]

    def _count(self, flow: Flow, amount: int) -> None:
        for level in (("identity", flow.identity), ("connection", flow.connection)):
            running = self._running.get(level, 0) + amount
            if running:
                self._running[level] = running
            else:
                del self._running[level]
