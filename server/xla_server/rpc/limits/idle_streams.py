"""Streams whose clients have sent no whole message for a while are ended if memory is short.

An incomplete message cannot be distinguished from a silent client, which is legitimate. But if the
connection has received next to nothing since the silence began, there is no incomplete message, and
the stream stays. The others are ended with UNAVAILABLE, after which clients open the stream again
and resume a feed or an upload.
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
"""Bytes that HTTP/2's flow control lets a stream receive before the server reads."""

_COUNTING_PART = 0.01
"""Largest share of time spent on counting received bytes while memory is not short."""


def never_idle() -> bool:
    """Return False: without other information a stream may have work in progress."""
    return False


@dataclasses.dataclass(slots=True, eq=False)
class IdleTimer:
    """The time for which a stream's client has been silent, and the means to end the stream.

    Thread-safe. `cancel` ends the stream with an error, and does not wait; `reset` cuts it off.
    """

    peer: str
    cancel: Callable[[XlaError], object]
    reset: Callable[[], object]
    since: list[float] = dataclasses.field(default_factory=list)
    """The time at which the server began to wait for a message; empty while it does not wait.

    The thread that pops it decides: the receiver takes the message, or `end` refuses all later
    ones.
    """
    has_begun: bool = False
    """True if a message has arrived."""
    is_idle: Callable[[], bool] = never_idle
    """Returns whether no work is in progress, so that only the stream itself would be lost."""
    ended_at: float | None = None
    """Time at which it was ended for its silence."""

    def received(self) -> bool:
        """Record the arrival of the awaited message, or the stream's end; False after `end`."""
        self.has_begun = True
        try:
            self.since.pop()
        except IndexError:
            return False
        return True

    def end(self, now: float, rule: str) -> bool:
        """End the stream; False if the message arrived before."""
        try:
            self.since.pop()
        except IndexError:
            return False
        self.ended_at = now
        # Tested only now, when nothing can begin on the stream any more.
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

    `_silences` are the timers of open streams; `_received` counts bytes by the addresses of peers.
    """

    _silences: dict[IdleTimer, None]
    _received: Callable[[], dict[str, Received]]
    _clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._counts: dict[str, Received] = {}
        self._count_at = 0.0
        # The start of a silence, and the bytes its connection had received then or somewhat
        # earlier.
        self._known: dict[IdleTimer, tuple[float, Received | None]] = {}
        self._found: list[IdleTimer] = []

    def update(self, *, is_short: bool) -> int:
        """Update the silent streams; return how many of them may hold a part of a message for long.

        With `is_short`, received bytes are counted at any cost.
        """
        # Streams that were not silent in the previous round became so after these counts.
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
        """End some of the streams; return how many.

        `used` and `limit` are the process's memory and its limit, in bytes. Idle streams come
        first, unless `is_all_alike`. Streams that were ended before and are still open are cut off:
        their clients do not read, and their bytes stay in memory meanwhile.
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
