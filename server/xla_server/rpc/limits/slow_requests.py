"""Unary requests that arrive slowly are ended if memory is short.

Only the time for which an incomplete request has been arriving is known.
"""

import collections
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from xla_contract.errors import ResourceExhaustedError
from xla_server.rpc.errors import status_of
from xla_server.rpc.grpc_internals import EndableCalls

T = TypeVar("T")

SLOW_SECONDS = 1.0
"""Seconds that a request or a message may take to arrive, even if memory is short."""

_LEAST_ENDED = 2
_ENDED_PART = 4
"""Divisor of the number of calls ended in a round, at least one: memory is freed with a delay."""


def count_to_end(count: int) -> int:
    """Return the number of calls to end in a round."""
    return max(_LEAST_ENDED, count // _ENDED_PART)


def calls_to_end(calls: Iterable[tuple[T, str]], count: int) -> list[T]:
    """Return the `count` calls to end of `calls`, which are pairs of call and peer, oldest first.

    Calls are chosen one after the other: the newest of the peer with most calls left; the newest
    among peers with as many.
    """
    of_peer: collections.Counter[str] = collections.Counter()
    ranked = []
    for number, (call, peer) in enumerate(calls):
        of_peer[peer] += 1
        ranked.append((of_peer[peer], number, call))
    ranked.sort(key=lambda each: each[:2], reverse=True)
    return [call for _, _, call in ranked[:count]]


class SlowRequests:
    """Requests that have been arriving for more than SLOW_SECONDS. For one thread."""

    def __init__(self, expected: EndableCalls, clock: Callable[[], float] = time.monotonic) -> None:
        self._expected = expected
        self._clock = clock
        self._since: dict[Any, float] = {}
        self._slow: dict[Any, Any] = {}

    def update(self) -> int:
        """Update the arriving requests; return how many of them are slow."""
        now, before = self._clock(), self._since
        events = self._expected.events.copy()
        self._since = since = {state: before.get(state, now) for state in events}
        # grpc's state of a call -> the event of its arrival, oldest first.
        self._slow = {
            state: event for state, event in events.items() if now - since[state] >= SLOW_SECONDS
        }
        return len(self._slow)

    def end(self, used: int, limit: int) -> int:
        """End some of the slow requests with RESOURCE_EXHAUSTED; return how many.

        `used` and `limit` are the process's memory and its limit, in bytes.
        """
        slow = self._slow
        peers = {state: event.call.peer().decode() for state, event in slow.items()}
        held = collections.Counter(peers.values())
        ended = 0
        for state in calls_to_end(peers.items(), count_to_end(len(slow))):
            error = ResourceExhaustedError(
                f"a request may arrive for more than {SLOW_SECONDS:g} s while the server has at "
                f"most {limit} bytes of memory, got {used} with {len(slow)} such requests, "
                f"{held[peers[state]]} of them on this connection",
                hint="Send large values in chunks (Upload), or call again later.",
            )
            rpc = slow[state].call_details.method.decode().rpartition("/")[2]
            ended += self._expected.end(state, status_of(error.at(rpc)))
        return ended
