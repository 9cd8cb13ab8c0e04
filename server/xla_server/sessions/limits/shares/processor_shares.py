"""Selection of items by least use of identity, then connection, then session.

Each of n identities with items gets an n-th of the processor time, however many items it has. The
connections of one identity share its part in the same way, and so do the sessions of a connection.
"""

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

from xla_server.sessions.limits.shares.caller import Flow

T = TypeVar("T")


class ProcessorShares:
    """The processor time that flows took, in seconds. Not thread-safe.

    A flow that comes has as much as the least of its siblings: it is owed nothing for the time in
    which it had no items. One that goes has its seconds until its siblings have as many, so that
    items one after another are charged as those at the same time.
    """

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, ...], float] = {}
        """Seconds of each identity, connection and session, from a start that siblings share."""
        self._least: dict[tuple[str, ...], float] = {}
        """Least seconds of the siblings below each parent, at the last `keep`."""

    def keep(self, flows: Iterable[Flow]) -> None:
        """Take these flows as those with items; forget others that took no more than a sibling."""
        kept = {key for flow in flows for key in _levels(flow)}
        least: dict[tuple[str, ...], float] = {}
        for key in kept & self._seconds.keys():
            least[key[:-1]] = min(self._seconds[key], least.get(key[:-1], self._seconds[key]))
        self._seconds = {key: least.get(key[:-1], 0.0) for key in kept} | {
            key: seconds
            for key, seconds in self._seconds.items()
            if key in kept or seconds > least.get(key[:-1], math.inf)
        }
        self._least = least

    def charge(self, flow: Flow, seconds: float) -> None:
        """Count processor time of a flow that is kept."""
        for key in _levels(flow):
            self._seconds[key] += seconds

    def lead(self, flow: Flow) -> float:
        """Return how much more a flow took than the least of its siblings, at any level."""
        seconds, least = self._seconds, self._least
        return max(seconds[key] - least.get(key[:-1], 0.0) for key in _levels(flow))

    def select(
        self,
        items: Iterable[T],
        count: int,
        flow_of: Callable[[T], Flow],
        rank_of: Callable[[T], float],
        quantum: float,
    ) -> list[T]:
        """Return at most `count` of the items; within a session, those of lowest rank first.

        Each is going to take `quantum` seconds, as far as the choice of the next one is concerned.
        """
        queues: dict[Flow, list[T]] = {}
        # In reverse, as each session's items are popped from the end.
        for item in sorted(items, key=rank_of, reverse=True):
            queues.setdefault(flow_of(item), []).append(item)
        selected: list[T] = []
        expected = dict(self._seconds)
        while queues and len(selected) < count:
            flow = min(queues, key=lambda flow: [expected[key] for key in _levels(flow)])
            selected.append(queues[flow].pop())
            if not queues[flow]:
                del queues[flow]
            for key in _levels(flow):
                expected[key] += quantum
        return selected


def _levels(flow: Flow) -> tuple[tuple[str, ...], ...]:
    return flow[:1], flow[:2], flow[:3]
