"""Streams whose clients have sent no whole message for a while, ended where memory is short.

An incomplete message cannot be distinguished from a silent client, which is legitimate. But where
its connection has received next to nothing since the silence began there is no such part, and the
stream stays. The others are ended with UNAVAILABLE, from which clients go on: they open the stream
again, a feed or an upload where it was.
"""

import collections
import dataclasses
import time
from collections.abc import Callable

from xla_contract.errors import NotBegunError, UnavailableError, XlaError
from xla_server.rpc.limits.connection_bytes import Received
from xla_server.rpc.limits.slow_requests import SLOW_SECONDS, calls_to_end, count_to_end
from xla_server.rpc.peers.addresses import tcp_address

UNASKED_BYTES = 1 << 16
"""Bytes that a stream may receive before the server reads, by HTTP/2's flow control."""

_COUNTING_PART = 0.01
"""Share of the time for counting received bytes while memory is not short."""


def never_idle() -> bool:
    """Return False: a stream that says nothing of itself may have something in progress."""
    return False


class IdleTimer:
    """The silence of one stream's client, and what ends the stream. Thread-safe.

    `cancel` ends the stream with an error, and does not wait; `reset` cuts it off.
    """

    def __init__(
        self, peer: str, cancel: Callable[[XlaError], object], reset: Callable[[], object]
    ) -> None:
        self.peer = peer
        self.cancel = cancel
        self.reset = reset
        self.since: list[float] = []
        """The time at which the server began to wait for a message; empty while it does not wait.

        The thread that takes it out decides: the receiver takes the message, or `end` refuses all
        later ones.
        """
        self.has_begun = False
        """True if a message has come."""
        self.is_idle: Callable[[], bool] = never_idle
        """Returns whether no work is in progress, so that only the stream itself would be lost."""
        self.ended_at: float | None = None
        """Time at which it was ended for its silence."""

    def received(self) -> bool:
        """Say that the awaited message, or its stream's end, has come; False after `end`."""
        self.has_begun = True
        try:
            self.since.pop()
        except IndexError:
            return False
        return True

    def end(self, now: float, rule: str) -> bool:
        """End the stream; False where the message has come before."""
        try:
            self.since.pop()
        except IndexError:
            return False
        self.ended_at = now
        # Asked only now: nothing is begun on it any more.
        kind = NotBegunError if self.is_idle() else UnavailableError
        self.cancel(
            kind(
                rule, hint="Open the stream again and go on; send large values in chunks (Upload)."
            )
        )
        return True


@dataclasses.dataclass(eq=False)
class IdleStreams:
    """Streams that have been silent for more than SLOW_SECONDS. For one thread.

    `_silences` are those of the streams there are; `_received` counts by the addresses of peers.
    """

    _silences: dict[IdleTimer, None]
    _received: Callable[[], dict[str, Received]]
    _clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._counts: dict[str, Received] = {}
        self._count_at = 0.0
        # When a silence began, and what its connection had received by then, or some time before.
        self._known: dict[IdleTimer, tuple[float, Received | None]] = {}
        self._found: list[IdleTimer] = []

    def look(self, *, is_short: bool) -> int:
        """Update the silent streams; return how many of them may hold a part of a message for long.

        With `is_short`, received bytes are counted at any cost.
        """
        # Streams that are silent below and were not in the round before began after these counts.
        before = self._counts
        now = self._clock()
        if is_short or now >= self._count_at:
            self._counts = self._received() if self._silences else {}
            now, began = self._clock(), now
            self._count_at = now + (now - began) / _COUNTING_PART
        known = {}
        found = []
        for silence in self._silences.copy():
            ended_at = silence.ended_at
            if ended_at is not None:
                if now - ended_at >= SLOW_SECONDS:
                    found.append((ended_at, silence))
                continue
            since = next(iter(silence.since), None)
            if since is None:
                continue
            address = tcp_address(silence.peer) or ""
            last = self._known.get(silence)
            known[silence] = last if last and last[0] == since else (since, before.get(address))
            count = self._counts.get(address)
            may_hold = count is None or count.since(known[silence][1]) > UNASKED_BYTES
            if may_hold and now - since >= SLOW_SECONDS:
                found.append((since, silence))
        self._known = known
        self._found = [silence for _, silence in sorted(found, key=lambda each: each[0])]
        return len(self._found)

    def end(self, used: int, limit: int, *, is_all_alike: bool) -> int:
        """End some of the streams; gives how many.

        `used` and `limit` are what the process has and should have, in bytes. Those that are idle
        come first, unless all are to be alike. Those that were ended, and have not gone since, are
        cut off: their clients do not read, and what they sent stays until they go.
        """
        now = self._clock()
        held = collections.Counter(silence.peer for silence in self._found)
        ended = 0
        for silence in self._order(is_all_alike=is_all_alike):
            if silence.ended_at is not None:
                silence.reset()
                ended += 1
                continue
            ended += silence.end(
                now,
                f"a stream may be silent for more than {SLOW_SECONDS:g} s while the server has at "
                f"most {limit} bytes of memory, got {used} with {len(self._found)} such streams "
                f"that may hold parts of messages, {held[silence.peer]} of them on this connection",
            )
        return ended

    def _order(self, *, is_all_alike: bool) -> list[IdleTimer]:
        count = count_to_end(len(self._found))
        first = [each for each in self._found if is_all_alike or _comes_first(each)]
        chosen = calls_to_end(((each, each.peer) for each in first), count)
        last = [] if is_all_alike else [each for each in self._found if not _comes_first(each)]
        return chosen + calls_to_end(((each, each.peer) for each in last), count - len(chosen))


def _comes_first(silence: IdleTimer) -> bool:
    return silence.ended_at is not None or silence.is_idle()
