from collections.abc import Callable

import pytest

from xla_contract.errors import NotBegunError, UnavailableError, XlaError
from xla_server.rpc.grpc_internals import EndableCalls
from xla_server.rpc.limits.connection_bytes import Received
from xla_server.rpc.limits.idle_streams import UNASKED_BYTES, IdleStreams, IdleTimer
from xla_server.rpc.limits.memory_pressure import MemoryPressure
from xla_server.rpc.limits.slow_requests import SLOW_SECONDS

HELD = UNASKED_BYTES + 1


class Watched:
    """Streams of peers that are named by letters, and a clock that the test sets."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self.received: dict[str, Received] = {}
        self.counted = 0
        self.counting_seconds = 0.0
        self.silences: dict[IdleTimer, None] = {}
        self.named: dict[str, IdleTimer] = {}
        self.reported: dict[str, XlaError] = {}
        self.cut_off: list[str] = []
        self.streams = IdleStreams(self.silences, self.count, self.clock)

    def clock(self) -> float:
        return self.seconds

    def count(self) -> dict[str, Received]:
        self.counted += 1
        self.seconds += self.counting_seconds
        return dict(self.received)

    def come(self, peer: str, *names: str, idle: bool = True) -> None:
        """Streams whose messages are waited for from now on; their connection has received much."""
        for name in names:
            silence = IdleTimer(_peer(peer), self._told(name), lambda name=name: self._cut(name))
            silence.is_idle = lambda: idle
            silence.since.append(self.seconds)
            self.silences[silence] = None
            self.named[name] = silence
        self.receive(peer, HELD)

    def receive(self, peer: str, count: int) -> None:
        before = self.received.get(f"{peer}:1", Received(1, 0))
        self.received[f"{peer}:1"] = before._replace(byte_count=before.byte_count + count)

    def hear(self, name: str) -> None:
        """A message comes, is taken, and another is waited for."""
        self.named[name].since[:] = [self.seconds]

    def look(self, seconds: float = 0.0, *, is_short: bool = False) -> int:
        self.seconds += seconds
        return self.streams.update(is_short=is_short)

    def end(self, *, is_all_alike: bool = False) -> list[str]:
        """The streams that are ended now, the first of them first; they go at once."""
        before = set(self.reported)
        count = self.streams.end(1001, 1000, is_all_alike=is_all_alike)
        ended = [name for name in self.reported if name not in before]
        assert count == len(ended)
        for name in ended:
            del self.silences[self.named[name]]
        return ended

    def _told(self, name: str) -> Callable[[XlaError], None]:
        return lambda error: self.reported.update({name: error})

    def _cut(self, name: str) -> None:
        self.cut_off.append(name)


def _peer(name: str) -> str:
    return f"ipv4:{name}:1"


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_only_what_is_silent_for_a_second_is_ended(watched: Watched) -> None:
    watched.come("a", "1", "2")
    assert watched.look() == 0
    assert watched.look(SLOW_SECONDS / 2) == 0
    watched.hear("2")
    watched.receive("a", HELD)
    assert watched.look(SLOW_SECONDS / 2) == 1
    assert watched.end() == ["1"]


def test_the_newest_of_the_largest_holder_are_ended(watched: Watched) -> None:
    watched.come("b", "1")
    watched.look(0.1)
    watched.come("a", "2", "3", "4")
    watched.look(0.1)
    # Older as a stream, newer as a silence.
    watched.hear("2")
    watched.receive("a", HELD)
    watched.look()
    assert watched.look(2) == 4
    assert watched.end() == ["2", "4"]


def test_of_many_a_part_is_ended_at_a_time(watched: Watched) -> None:
    watched.come("a", *map(str, range(100)))
    watched.look()
    assert watched.look(2) == 100
    assert len(watched.end()) == 25
    assert watched.look() == 75


def test_who_has_received_nothing_since_was_only_silent(watched: Watched) -> None:
    watched.come("a", "1")
    watched.receive("a", 1 << 30)
    watched.look()
    # A message, and behind it nothing.
    watched.look(0.5)
    watched.hear("1")
    for _ in range(4):
        assert watched.look(0.5) == 0
    watched.receive("a", UNASKED_BYTES)
    assert watched.look() == 0
    watched.receive("a", 1)
    assert watched.look() == 1
    assert watched.end() == ["1"]


def test_what_came_before_the_silence_was_first_seen_is_not_overlooked(watched: Watched) -> None:
    watched.come("a", "1")
    watched.look()
    watched.hear("1")
    watched.receive("a", HELD)
    watched.look(0.4)
    assert watched.look(1) == 1


def test_another_connection_of_the_same_address_is_another(watched: Watched) -> None:
    watched.come("a", "1")
    watched.receive("a", 1 << 30)
    watched.look()
    # Its client left, and came back from the same port.
    watched.hear("1")
    watched.received["a:1"] = Received(2, (1 << 30) + HELD)
    watched.look(0.5)
    assert watched.look(1) == 1


def test_counting_takes_a_small_part_of_the_time_unless_memory_is_short(watched: Watched) -> None:
    watched.come("a", "1")
    watched.counting_seconds = 0.1
    for _ in range(10):
        watched.look(0.5)
    assert watched.counted == 1
    watched.hear("1")
    watched.receive("a", HELD)
    for _ in range(4):
        assert watched.look(0.5) == 0
    assert watched.look(0.5, is_short=True) == 1
    for _ in range(25):
        watched.look(0.5)
    assert watched.counted == 3


def test_where_the_system_does_not_count_all_may_hold_parts(watched: Watched) -> None:
    watched.come("a", "1")
    watched.received.clear()
    silence = IdleTimer("unix:", watched._told("2"), lambda: None)
    silence.since.append(watched.seconds)
    watched.silences[silence] = None
    watched.named["2"] = silence
    watched.look()
    assert watched.look(1.5) == 2
    assert sorted(watched.end()) == ["1", "2"]


def test_streams_with_something_in_progress_come_last(watched: Watched) -> None:
    watched.come("a", "1", "2", "3", "4", idle=False)
    watched.come("b", "5", "6", "7")
    watched.look()
    assert watched.look(2) == 7
    assert watched.end() == ["7", "6"]
    assert watched.look() == 5
    assert watched.end() == ["5", "4"]


def test_they_are_not_safe_for_ever(watched: Watched) -> None:
    watched.come("a", "1", "2", "3", "4", idle=False)
    watched.come("b", "5", "6", "7")
    watched.look()
    watched.look(2)
    assert watched.end(is_all_alike=True) == ["4", "7"]


def test_an_idle_stream_is_notified_that_nothing_was_begun(watched: Watched) -> None:
    watched.come("a", "1")
    watched.come("b", "2", idle=False)
    watched.look()
    watched.look(2)
    assert watched.end() == ["1", "2"]
    assert type(watched.reported["1"]) is NotBegunError
    assert type(watched.reported["2"]) is UnavailableError
    assert watched.reported["1"].message == (
        "a stream may be silent for more than 1 s while the server has at most 1000 bytes of "
        "memory, got 1001 with 2 such streams that may hold parts of messages, 1 of them on this "
        "connection"
    )
    assert watched.reported["1"].hint


def test_a_message_that_comes_meanwhile_is_taken(watched: Watched) -> None:
    watched.come("a", "1")
    watched.look()
    assert watched.look(2) == 1
    watched.named["1"].since.clear()
    assert watched.end() == []
    assert watched.named["1"].ended_at is None


def test_a_stream_that_cannot_be_notified_is_cut_off(watched: Watched) -> None:
    watched.come("a", "1")
    watched.look()
    watched.look(2)
    assert watched.streams.end(1001, 1000, is_all_alike=False) == 1
    # Its client may be slow to read.
    assert watched.look(SLOW_SECONDS / 2) == 0
    assert watched.look(SLOW_SECONDS / 2) == 1
    assert watched.streams.end(1001, 1000, is_all_alike=False) == 1
    assert watched.cut_off == ["1"]
    del watched.silences[watched.named["1"]]
    assert watched.look(5) == 0


# With requests, and with memory ----------------------------------------------------------------


class Pressed(Watched):
    """The same, of a process that has 1000 bytes too many unless the test says otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.resident = 2000
        self.requests = 0
        self.ended_requests = 0
        self.pressure = MemoryPressure(
            EndableCalls(),
            self.silences,
            1000,
            resident=lambda: self.resident,
            trim=lambda: None,
            received=self.count,
            clock=self.clock,
        )
        self.pressure._requests.update = lambda: self.requests  # type: ignore[method-assign]
        self.pressure._requests.end = self._end_requests  # type: ignore[method-assign]

    def round(self, seconds: float = 0.5) -> list[str]:
        """The streams that are ended so much later; they go at once."""
        self.seconds += seconds
        before = set(self.reported)
        self.pressure.end_slow_calls()
        ended = [name for name in self.reported if name not in before]
        for name in ended:
            del self.silences[self.named[name]]
        return ended

    def _end_requests(self, used: int, limit: int) -> int:
        assert (used, limit) == (self.resident, 1000)
        self.ended_requests += 1
        return 1


@pytest.fixture
def pressed() -> Pressed:
    return Pressed()


def test_nothing_is_ended_while_there_is_memory(pressed: Pressed) -> None:
    pressed.come("a", "1")
    pressed.resident = 1000
    for _ in range(10):
        assert pressed.round() == []
    pressed.resident = 1001
    assert pressed.round() == ["1"]


def test_streams_come_behind_requests_for_one_round(pressed: Pressed) -> None:
    pressed.come("a", "1", "2", "3")
    pressed.requests = 1
    pressed.resident = 1000
    pressed.round()
    pressed.resident = 1001
    assert pressed.round(2) == []
    assert pressed.round() == ["3", "2"]
    assert pressed.ended_requests == 2
    # Once there was enough it begins anew.
    pressed.resident = 1000
    pressed.round()
    pressed.resident = 1001
    assert pressed.round() == []
    pressed.requests = 0
    assert pressed.round() == ["1"]


def test_without_slow_requests_streams_are_ended_at_once(pressed: Pressed) -> None:
    pressed.come("a", "1")
    pressed.round(0)
    assert pressed.round(2) == ["1"]


def test_calls_in_progress_protect_a_stream_for_a_while_only(pressed: Pressed) -> None:
    pressed.come("a", *map(str, range(8)), idle=False)
    ended: list[str] = []
    rounds = 0
    while not set(ended) & set(pressed.named) & set("01234567"):
        # Others come and go silent all the time.
        pressed.come("b", *(f"b{rounds}.{number}" for number in range(4)))
        ended = pressed.round()
        rounds += 1
        assert rounds < 20
    assert 8 <= rounds <= 10
