import types
from typing import Any

import grpc
import psutil
import pytest

from tests.fault.plain import until
from xla_server.rpc.grpc_internals import EndableCalls
from xla_server.rpc.limits.idle_streams import IdleTimer
from xla_server.rpc.limits.memory_pressure import MemoryPressure, resident_bytes
from xla_server.rpc.limits.slow_requests import calls_to_end

LIMIT = 1000


@pytest.mark.parametrize(
    ("peers", "count", "ended"),
    [
        ("", 3, []),
        ("a", 3, [0]),
        ("aaa", 2, [2, 1]),
        # Calls of the peer with most are ended until another has as many; then of both.
        ("aaaabb", 3, [3, 2, 5]),
        ("bbaaaa", 5, [5, 4, 3, 1, 2]),
        # The holder of the fewest keeps them longest.
        ("caaabbb", 6, [6, 3, 5, 2, 4, 1]),
        ("abc", 2, [2, 1]),
    ],
)
def test_the_newest_of_the_largest_holder_are_ended(
    peers: str, count: int, ended: list[int]
) -> None:
    assert calls_to_end(enumerate(peers), count) == ended


def test_the_memory_of_this_process_is_known() -> None:
    before = resident_bytes()
    assert 0.5 < before / psutil.Process().memory_info().rss < 2
    more = bytearray(b"x") * (64 << 20)
    assert resident_bytes() > before + len(more) // 2


class Calls(EndableCalls):
    """Calls as grpc has them, and their statuses."""

    def __init__(self) -> None:
        super().__init__()
        self.reported: dict[str, grpc.Status] = {}

    def come(self, peer: str, *names: str) -> None:
        for name in names:
            event: Any = types.SimpleNamespace()
            event.call = types.SimpleNamespace(peer=peer.encode)
            event.call_details = types.SimpleNamespace(method=b"/xla.XlaService/Compile")
            self.events[name] = event

    def end(self, state: Any, status: grpc.Status) -> bool:
        self.reported[state] = status
        return self.events.pop(state, None) is not None


class Watched:
    """A process with a clock and memory that the test sets."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.resident = LIMIT + 1
        self.free = 0
        self.trims = 0
        self.calls = Calls()
        self.silences: dict[IdleTimer, None] = {}
        self._pressure = MemoryPressure(
            self.calls,
            self.silences,
            LIMIT,
            resident=lambda: self.resident,
            trim=self._trim,
            clock=lambda: self.seconds,
        )

    def look(self, seconds: float) -> list[str]:
        """The calls that are ended so much later."""
        self.seconds += seconds
        before = set(self.calls.reported)
        count = self._pressure.end_slow_calls()
        ended = [name for name in self.calls.reported if name not in before]
        assert count == len(ended)
        return ended

    def _trim(self) -> None:
        self.trims += 1
        self.resident, self.free = self.resident - self.free, 0


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_only_what_has_come_for_a_second_is_ended(watched: Watched) -> None:
    watched.calls.come("a", "1")
    assert watched.look(0) == []
    watched.calls.come("a", "2")
    assert watched.look(0.5) == []
    assert watched.look(0.5) == ["1"]
    assert watched.look(0.5) == ["2"]
    assert watched.look(5) == []


def test_nothing_is_ended_while_there_is_memory(watched: Watched) -> None:
    watched.calls.come("a", "1", "2")
    watched.resident = LIMIT
    for _ in range(4):
        assert watched.look(1) == []
    assert not watched.trims
    watched.resident += 1
    assert watched.look(0.1) == ["2", "1"]


def test_the_allocator_is_left_alone_without_slow_requests(watched: Watched) -> None:
    assert watched.look(0) == []
    assert watched.look(5) == []
    assert not watched.trims


def test_what_the_allocator_keeps_is_given_back_first(watched: Watched) -> None:
    watched.calls.come("a", "1")
    watched.free = 1
    watched.look(0)
    assert watched.look(2) == []
    assert watched.trims == 1
    watched.resident += 1
    assert watched.look(0.1) == ["1"]


def test_some_are_ended_at_a_time_until_it_is_enough(watched: Watched) -> None:
    watched.calls.come("a", "1", "2", "3", "4")
    watched.calls.come("b", "5", "6")
    watched.look(0)
    assert watched.look(1) == ["4", "3"]
    assert watched.look(0.5) == ["6", "2"]
    watched.free = 1
    assert watched.look(0.5) == []
    assert set(watched.calls.events) == {"1", "5"}


def test_of_many_a_part_is_ended_at_a_time(watched: Watched) -> None:
    watched.calls.come("a", *map(str, range(100)))
    watched.look(0)
    assert len(watched.look(1)) == 25
    assert len(watched.look(1)) == 18


def test_errors_have_the_limit_the_use_and_what_to_do(watched: Watched) -> None:
    watched.calls.come("a", "1", "2")
    watched.calls.come("b", "3")
    watched.look(0)
    assert watched.look(1) == ["2", "3"]
    status: Any = watched.calls.reported["2"]
    assert status.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert status.details == (
        "Compile: a request may arrive for more than 1 s while the server has at most 1000 bytes "
        "of memory, got 1001 with 3 such requests, 2 of them on this connection"
    )
    ((_, details),) = status.trailing_metadata
    assert b"Send large values in chunks (Upload)" in details


@pytest.mark.parametrize(("limit", "resident"), [(0, 1), (1, 0)])
def test_without_a_limit_or_a_measure_no_thread_looks(limit: int, resident: int) -> None:
    calls = Calls()
    pressure = MemoryPressure(calls, {}, limit, resident=lambda: resident)
    pressure.start()
    assert not pressure._thread.is_alive()
    pressure.close()


def test_a_round_that_fails_is_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    calls = Calls()
    seen: list[int] = []

    def resident() -> int:
        seen.append(1)
        if len(seen) == 2:
            raise OSError
        return LIMIT + 1

    pressure = MemoryPressure(calls, {}, LIMIT, resident=resident, trim=lambda: None)
    calls.come("a", "1")
    pressure.start()
    until(lambda: bool(calls.reported))
    pressure.close()
    assert list(calls.reported) == ["1"]
    assert "looking for calls that send slowly failed" in caplog.text
