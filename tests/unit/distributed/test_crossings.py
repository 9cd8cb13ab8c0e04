"""Meetings of this rank, 0, with another one: what is told before arrays are exchanged."""

from collections.abc import Collection, Mapping
from typing import Any, cast

import numpy as np
import pytest

from xla_contract.errors import ResourceExhaustedError, UnavailableError
from xla_contract.types.opcode import Opcode
from xla_server.distributed import exchange
from xla_server.distributed.crossings import Crossings
from xla_server.distributed.frames import Bytes, bytes_of
from xla_server.distributed.messages import Go
from xla_server.distributed.parcels import Stamp
from xla_server.distributed.polling import LOOKS, BackOff
from xla_server.ops.evaluation import Array, Crossing, Meeting, Route

MEETING = Meeting("sum", Opcode.ALL_REDUCE, 1, (0, 1))
WHOLE = Crossing(Route.WHOLE, "float32[4]", np.empty_like, lambda array, *_: [array], None)
GIVEN = [np.zeros(4, np.float32), None]


class Rank0:
    """The link, and the exchange, which note what they are told."""

    def __init__(self, *, says_go: bool = True) -> None:
        self.told: list[str] = []
        self.says_go = says_go
        self.parcels: Any = None
        tools: Any = self
        seconds = 1000.0 if says_go else 0.0
        self.crossings = Crossings(
            1, (0, 1), 0, exchange=tools, link=tools, seconds=seconds, is_one_program=True
        )

    def arrive(self, arrival: Any) -> None:
        self.told += [f"arrive {visit.number} {visit.turns}" for visit in arrival.visits]
        if arrival.visits[-1].turns and self.says_go:
            self.crossings.go(Go(1, ("sum", (0, 1)), (0, 1), 5))

    def late(self, key: object, visit: int) -> None:
        self.told.append("late")
        # A rank was silent the first time.
        if self.told.count("late") == 2:
            self.crossings.fail(UnavailableError("too late"))

    def ended(self, number: int) -> None:
        self.told.append("ended")

    def gather(self, ranks: Any, turn: int, mine: Any, others: Any) -> None:
        self.told.append(f"gather {ranks} {turn} {len(mine)} {sorted(others)}")


def test_arrays_are_exchanged_when_rank_0_says_so() -> None:
    rank = Rank0()
    parts = rank.crossings.gathered(MEETING, GIVEN, WHOLE)
    assert parts[0] is GIVEN[0]
    assert parts[1].shape == (4,)
    assert rank.told == ["arrive 0 1", "gather (0, 1) 5 1 [1]"]


def test_too_many_bytes_are_refused_before_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "MAX_BYTES", 15)
    rank = Rank0()
    with pytest.raises(ResourceExhaustedError, match="at most 15 bytes in one collective, got 16"):
        rank.crossings.gathered(MEETING, GIVEN, WHOLE)
    assert rank.told == []


def test_a_meeting_that_has_waited_for_its_time_is_told_of_until_there_is_an_answer() -> None:
    rank = Rank0(says_go=False)
    with pytest.raises(UnavailableError, match="too late"):
        rank.crossings.gathered(MEETING, GIVEN, WHOLE)
    assert rank.told == ["arrive 0 1", "late", "late"]


def test_a_run_that_has_failed_comes_to_no_meeting() -> None:
    rank = Rank0()
    rank.crossings.fail(UnavailableError("gone"))
    with pytest.raises(UnavailableError, match="gone"):
        rank.crossings.gathered(MEETING, GIVEN, WHOLE)
    assert rank.told == []


class Peer:
    """The parcels of a rank 1 that answers after so many looks, or never."""

    failure = None

    def __init__(self, looks: float) -> None:
        self.shelf = self
        self.looks = looks
        self.sent: list[Stamp] = []

    def send(self, stamp: Stamp, contents: Mapping[int, Bytes]) -> None:
        assert [*contents] == [1]
        self.sent.append(stamp)

    def look(self) -> None:
        self.looks -= 1

    def take(self, stamp: Stamp, ranks: Collection[int]) -> Mapping[int, Bytes] | None:
        assert stamp is self.sent[-1]
        return None if self.looks > 0 else {1: bytes_of(np.arange(4, dtype=np.float32))}


def small(rank: Rank0, peer: Peer) -> Array:
    rank.parcels = peer
    parts = rank.crossings.gathered(MEETING, GIVEN, WHOLE._replace(is_small=True))
    return cast(Array, parts[1])


def test_small_arrays_are_exchanged_without_rank_0() -> None:
    """It is told of visits later, in order: before the end at the latest."""
    rank, peer = Rank0(), Peer(looks=LOOKS)
    for _ in range(2):
        np.testing.assert_array_equal(small(rank, peer), np.arange(4))
    assert rank.told == []
    rank.crossings.ended(0)
    assert rank.told == ["arrive 0 0", "arrive 1 0", "ended"]
    assert [stamp.visit for stamp in peer.sent] == [0, 1]


def test_rank_0_is_told_when_others_do_not_come() -> None:
    rank = Rank0(says_go=False)
    with pytest.raises(UnavailableError, match="too late"):
        small(rank, Peer(looks=float("inf")))
    assert rank.told == ["arrive 0 0", "late", "late"]


def test_looks_are_rare_when_nothing_happens() -> None:
    """A process that only listens looks 500 times a second at most."""
    back_off = BackOff(3)
    seconds = [back_off.next_seconds() for _ in range(40)]
    assert seconds[:3] == [0, 0, 0]
    assert seconds[3:] == sorted(seconds[3:])
    assert seconds[3] > 0
    assert seconds[-1] == 2e-3
