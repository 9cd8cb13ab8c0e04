"""Collectives of this rank, 0, with another one: what is announced before arrays are exchanged."""

from collections.abc import Mapping, Sequence
from typing import Any, cast
from unittest.mock import Mock

import numpy as np
import pytest

from xla_contract.errors import ResourceExhaustedError, UnavailableError
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.opcode import Opcode
from xla_server.distributed import exchange
from xla_server.distributed.crossings import Crossings
from xla_server.distributed.transport.frames import Bytes, bytes_of
from xla_server.distributed.transport.messages import Arrive, Ended, Go, Late, RunOptions
from xla_server.distributed.transport.parcels import Stamp
from xla_server.distributed.transport.polling import POLLS, BackOff
from xla_server.distributed.transport.shared_regions import RegionPart, SharedRegions, SharedSlots
from xla_server.execution.collectives_protocol import CollectivePlan, NativeCollective
from xla_server.ir.analysis.participants import Placement
from xla_server.ir.text.parser import parse_module
from xla_server.ops.evaluation import Array, Crossing, GroupCollective, Reduction, Route
from xla_server.runtime.collective_records import meets_natively, words_at

FORM = ((np.dtype(np.float32), (4,)),)
COLLECTIVE = GroupCollective("sum", Opcode.ALL_REDUCE, 1, (0, 1))
WHOLE = Crossing(Route.WHOLE, FORM, np.empty_like, lambda array, *_: [array], None)
GIVEN = [np.zeros(4, np.float32), None]
PART = RegionPart(0, 1000)


class Rank0:
    """Rank 0, and the exchange, which record their calls."""

    def __init__(self, *, says_go: bool = True, is_fast: bool = False) -> None:
        self.reported: list[str] = []
        self.says_go = says_go
        self.parcels: Any = Peer(0)
        self.failure: object = None
        self.regions: SharedRegions | None = None
        tools: Any = self
        seconds = 1000.0 if says_go else 0.0
        options = RunOptions(
            *(1, (0, 1), DeviceGrid(2, 1), seconds, PART), is_one_program=True, is_fast=is_fast
        )
        self.crossings = Crossings(options, 0, tools, self.hear, failed=Mock())

    def hear(self, message: object) -> None:
        match message:
            case Arrive(_, visits):
                self.reported += [f"arrive {visit.number} {visit.turns}" for visit in visits]
                if visits[-1].turns and self.says_go:
                    self.crossings.go(Go(1, ("sum", (0, 1)), (0, 1), 5))
            case Late():
                self.reported.append("late")
                # A rank was silent the first time.
                if self.reported.count("late") == 2:
                    self.crossings.fail(UnavailableError("too late"))
            case Ended():
                self.reported.append("ended")

    def all_gather(self, ranks: Any, turn: int, mine: Any, others: Any) -> None:
        self.reported.append(f"gather {ranks} {turn} {len(mine)} {sorted(others)}")

    def all_reduce(self, ranks: Any, turn: int, totals: Sequence[Array], opcode: Opcode) -> None:
        self.reported.append(f"reduce {ranks} {turn} {opcode}")
        for total in totals:
            total += 1


def test_mpi_reduces_where_it_may_and_has_the_operation() -> None:
    def reduced(opcode: Opcode, *, is_fast: bool) -> tuple[list[str], list[Any]]:
        rank = Rank0(is_fast=is_fast)
        reduction = Reduction(
            opcode,
            [np.dtype(np.float32)],
            lambda given: [given[0] + 4],
            lambda part, totals: ("total", part is None, totals[0][0]),
        )
        given = rank.crossings.gathered(COLLECTIVE, GIVEN, WHOLE._replace(reduction=reduction))
        rank.crossings.spread(COLLECTIVE, None, WHOLE._replace(writes=lambda *_: []))
        return rank.reported, given

    reported, given = reduced(Opcode.ADD, is_fast=True)
    assert reported == ["arrive 0 1", "reduce (0, 1) 5 add"]
    assert given == [("total", False, 5), ("total", True, 5)]
    for opcode, is_fast in ((Opcode.MAXIMUM, True), (Opcode.ADD, False)):
        reported, given = reduced(opcode, is_fast=is_fast)
        assert reported[1].startswith("gather")
        assert given[0] is GIVEN[0]


def test_arrays_are_exchanged_when_rank_0_says_so() -> None:
    rank = Rank0()
    parts = rank.crossings.gathered(COLLECTIVE, GIVEN, WHOLE)
    assert parts[0] is GIVEN[0]
    assert parts[1].shape == (4,)
    assert rank.reported == ["arrive 0 1", "gather (0, 1) 5 1 [1]"]


def test_too_many_bytes_are_refused_before_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "MAX_BYTES", 15)
    rank = Rank0()
    with pytest.raises(ResourceExhaustedError, match="at most 15 bytes in one collective, got 16"):
        rank.crossings.gathered(COLLECTIVE, GIVEN, WHOLE)
    assert rank.reported == []


def test_a_collective_that_has_waited_for_its_time_is_reported_until_there_is_an_answer() -> None:
    rank = Rank0(says_go=False)
    with pytest.raises(UnavailableError, match="too late"):
        rank.crossings.gathered(COLLECTIVE, GIVEN, WHOLE)
    assert rank.reported == ["arrive 0 1", "late", "late"]


def test_a_run_that_has_failed_comes_to_no_collective() -> None:
    rank = Rank0()
    rank.crossings.fail(UnavailableError("gone"))
    with pytest.raises(UnavailableError, match="gone"):
        rank.crossings.gathered(COLLECTIVE, GIVEN, WHOLE)
    assert rank.reported == []


class Peer:
    """The parcels of a rank 1 that answers after so many polls, or never."""

    failure = None

    def __init__(self, polls: float, *, idle: float = 0) -> None:
        self.polls, self.idle = polls, idle
        self.sent: list[Stamp] = []

    def exchange(self, stamp: Stamp, sent: Mapping[int, Bytes], rooms: Mapping[int, Bytes]) -> Any:
        assert [*sent] == [*rooms] == [1]
        self.sent.append(stamp)
        rooms[1][:] = bytes_of(np.arange(4, dtype=np.float32))
        return self

    def is_done(self) -> bool:
        self.polls -= 1
        return self.polls < 0

    def may_abandon(self, *, is_lost: bool) -> bool:
        assert not is_lost
        self.idle -= 1
        return self.idle < 0

    def end(self, run: int) -> None:
        self.sent.clear()


def direct(rank: Rank0, peer: Peer) -> Array:
    rank.parcels = peer
    parts = rank.crossings.gathered(COLLECTIVE, GIVEN, WHOLE._replace(is_eager=True))
    return cast(Array, parts[1])


def test_arrays_are_exchanged_without_rank_0() -> None:
    """The last visit is reported later, before the end at the latest."""
    rank, peer = Rank0(), Peer(polls=POLLS)
    for _ in range(2):
        np.testing.assert_array_equal(direct(rank, peer), np.arange(4))
    assert rank.reported == []
    rank.crossings.ended(0)
    assert rank.reported == ["arrive 1 0", "ended"]
    assert [stamp.visit for stamp in peer.sent] == [0, 1]


def test_rank_0_is_notified_when_others_do_not_come() -> None:
    rank, peer = Rank0(says_go=False), Peer(polls=float("inf"), idle=3)
    with pytest.raises(UnavailableError, match="too late"):
        direct(rank, peer)
    assert rank.reported == ["arrive 0 0", "late", "late"]
    # Members' memory is not left before MPI is done with it.
    assert peer.idle == -1
    assert peer.sent == []


def test_what_members_write_for_all_is_exchanged_without_rank_0() -> None:
    rank, peer = Rank0(), Peer(polls=0)
    rank.parcels = peer
    shared = np.ones((2, 4), np.float32)
    writes = WHOLE._replace(is_eager=True, writes=lambda shared, place: [[shared[place]]])
    rank.crossings.gathered(COLLECTIVE, GIVEN, writes)
    rank.crossings.spread(COLLECTIVE, shared, writes)
    np.testing.assert_array_equal(shared, [np.ones(4), np.arange(4)])
    assert [stamp.visit for stamp in peer.sent] == [0, 0]
    assert len({stamp.digest for stamp in peer.sent}) == 2


def test_looks_are_rare_when_nothing_happens() -> None:
    """A process that only listens polls 500 times a second at most."""
    back_off = BackOff(3)
    seconds = [back_off.next_seconds() for _ in range(40)]
    assert seconds[:3] == [0, 0, 0]
    assert seconds[3:] == sorted(seconds[3:])
    assert seconds[3] > 0
    assert seconds[-1] == 2e-3


SUM = parse_module(
    """HloModule native, replica_count=2
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[4] parameter(0)
  ROOT sum = f32[4] all-reduce(x), replica_groups={}, to_apply=add }
"""
)
_PLACEMENTS = [Placement((0, 1), number) for number in (0, 1)]
PLAN = CollectivePlan([NativeCollective(SUM.entry.root, _PLACEMENTS, 64)])


class Shared:
    """Memory that rank 0 shares with rank 1, of which an earlier run has left something."""

    def __init__(self, rank: Rank0) -> None:
        self.regions = np.random.default_rng(0).integers(0, PART.first_stamp, (2, 1 << 17))
        addresses = {number: each.ctypes.data for number, each in enumerate(self.regions)}
        rank.regions = SharedRegions(addresses, 1 << 20, self.regions)
        collectives = rank.crossings.collectives(PLAN)
        assert collectives is not None
        self.collectives = collectives
        self.slots = [
            words_at(slots.slot, 8)
            for number in (0, 1)
            if (slots := SharedSlots(rank.regions, PART, (0, 1), [64]).member(number, 0))
        ]


def test_members_on_two_ranks_meet_in_shared_memory() -> None:
    rank = Rank0()
    shared = Shared(rank)
    visit = shared.collectives.visit(0, 0)
    assert visit.collective.members == (0, 1)
    assert visit.missing() == [0, 1]
    for slot, stamp in zip(shared.slots, (1000, 1001), strict=True):
        slot[0] = stamp
    assert visit.missing() == []
    rank.crossings.wait(0, visit)
    assert rank.reported == []
    rank.crossings.ended(0)
    assert rank.reported == ["arrive 0 0", "ended"]


def test_rank_0_is_notified_when_a_member_does_not_come_in_native_code() -> None:
    rank = Rank0(says_go=False)
    shared = Shared(rank)
    shared.slots[0][0] = 1000
    with pytest.raises(UnavailableError, match="too late"):
        rank.crossings.wait(0, shared.collectives.visit(0, 0))
    assert rank.reported == ["arrive 0 0", "late", "late"]


def test_what_came_to_no_native_collective_is_not_reported() -> None:
    rank = Rank0()
    Shared(rank)
    rank.crossings.ended(0)
    assert rank.reported == ["ended"]


@pytest.mark.parametrize("ranks", [{0: 1 << 40}, None])
def test_members_that_share_no_memory_meet_by_messages(ranks: Any) -> None:
    """On another machine, or without free memory."""
    rank = Rank0()
    rank.regions = ranks and SharedRegions(ranks, 1 << 20)
    collectives = rank.crossings.collectives(PLAN)
    if ranks is None:
        assert collectives is None
    else:
        assert collectives is not None
        assert not meets_natively(collectives.address(0), 0)
