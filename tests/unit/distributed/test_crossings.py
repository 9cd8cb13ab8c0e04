"""Meetings of this rank, 0, with another one: what is told before arrays are exchanged."""

from typing import Any

import numpy as np
import pytest

from xla_contract.errors import ResourceExhaustedError, UnavailableError
from xla_contract.types.opcode import Opcode
from xla_server.distributed import exchange
from xla_server.distributed.crossings import Crossings
from xla_server.distributed.messages import Go
from xla_server.ops.evaluation import Crossing, Meeting, Route

MEETING = Meeting("sum", Opcode.ALL_REDUCE, 1, (0, 1))
WHOLE = Crossing(Route.WHOLE, "float32[4]", np.empty_like, lambda array, *_: [array], None)
GIVEN = [np.zeros(4, np.float32), None]


class Rank0:
    """The link, and the exchange, which note what they are told."""

    def __init__(self, *, says_go: bool = True) -> None:
        self.told: list[str] = []
        self.says_go = says_go
        tools: Any = self
        seconds = 1000.0 if says_go else 0.0
        self.crossings = Crossings(
            1, (0, 1), 0, exchange=tools, link=tools, seconds=seconds, is_one_program=True
        )

    def arrive(self, arrival: Any) -> None:
        self.told.append(f"arrive {arrival.turns}")
        if self.says_go:
            self.crossings.go(Go(1, ("sum", (0, 1)), (0, 1), 5))

    def late(self, key: object) -> None:
        self.told.append("late")
        # A rank was silent the first time.
        if self.told.count("late") == 2:
            self.crossings.fail(UnavailableError("too late"))

    def gather(self, ranks: Any, turn: int, mine: Any, others: Any) -> None:
        self.told.append(f"gather {ranks} {turn} {len(mine)} {sorted(others)}")


def test_arrays_are_exchanged_when_rank_0_says_so() -> None:
    rank = Rank0()
    parts = rank.crossings.gathered(MEETING, GIVEN, WHOLE)
    assert parts[0] is GIVEN[0]
    assert parts[1].shape == (4,)
    assert rank.told == ["arrive 1", "gather (0, 1) 5 1 [1]"]


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
    assert rank.told == ["arrive 1", "late", "late"]


def test_a_run_that_has_failed_comes_to_no_meeting() -> None:
    rank = Rank0()
    rank.crossings.fail(UnavailableError("gone"))
    with pytest.raises(UnavailableError, match="gone"):
        rank.crossings.gathered(MEETING, GIVEN, WHOLE)
    assert rank.told == []
