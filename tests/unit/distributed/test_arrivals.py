"""Collectives over several ranks as rank 0 sees them: participants 0 and 1 are on rank 0."""

import dataclasses
from collections import Counter
from random import Random
from unittest.mock import Mock

import pytest

from xla_contract.errors import DeadlineExceededError, FailedPreconditionError, InvalidArgumentError
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.opcode import Opcode
from xla_server.distributed.arrivals import Arrivals
from xla_server.distributed.remote_run import RemoteRun
from xla_server.distributed.transport.messages import Arrive, Late, RunOptions, Visit
from xla_server.execution.cancellation import Cancellation
from xla_server.ops.evaluation import GroupCollective

OPTIONS = RunOptions(
    1, (0, 0, 1, 2), DeviceGrid(4, 1), 7.0, None, is_one_program=True, is_fast=False
)


def arrivals() -> Arrivals:
    return Arrivals(OPTIONS)


def arrival(
    come: set[int],
    *members: int,
    name: str = "sum",
    form: str = "float32[4]",
    number: int = 0,
) -> Visit:
    collective = GroupCollective(name, Opcode.ALL_REDUCE, 1, members)
    return Visit(collective, number, form, 1, tuple(come))


def test_a_collective_begins_when_all_its_members_have_come() -> None:
    seen = arrivals()
    first, second, third = (arrival(come, 3, 0, 1, 2) for come in ({3}, {0, 1}, {2}))
    assert [seen.arrive([each]) for each in (first, second)] == [[], []]
    key = OPTIONS.key(third.collective)
    assert seen.arrive([third]) == [(third, key, (0, 1, 2))]
    assert seen.late(key, 0) is None


@pytest.mark.parametrize("is_alone", [True, False], ids=["alone", "together"])
@pytest.mark.parametrize("seed", range(20))
def test_what_is_reported_late_and_together_never_looks_stuck(seed: int, is_alone: bool) -> None:
    """Participants go through their visits without rank 0, which is notified in any order.

    It is told some at a time, and of those only the last of each collective; by each member alone
    where it meets in native code, or by those of a rank together.
    """
    random = Random(seed)
    groups, numbers = ((0, 2), (2, 3), (0, 1, 2, 3)), Counter[tuple[int, ...]]()
    tellers = [{member} for member in range(4)] if is_alone else [{0, 1}, {2}, {3}]
    reported: list[list[Visit]] = [[] for _ in tellers]
    for _ in range(30):
        members = random.choice(groups)
        for visits, teller in zip(reported, tellers, strict=True):
            if come := teller.intersection(members):
                visits.append(arrival(come, *members, number=numbers[members]))
        numbers[members] += 1
    seen = arrivals()
    while any(reported):
        number = random.choice([number for number, visits in enumerate(reported) if visits])
        count = random.choice((1, 1, 2, 3, 30))
        last = {visit.collective: visit for visit in reported[number][:count]}
        del reported[number][:count]
        seen.arrive(random.sample([*last.values()], len(last)))
        if not reported[number]:
            for member in tellers[number]:
                seen.end(member)


def test_programs_of_their_own_meet_by_channel() -> None:
    seen = Arrivals(dataclasses.replace(OPTIONS, is_one_program=False))
    assert not seen.arrive([arrival({0}, 0, 2, name="mine")])
    assert seen.arrive([arrival({2}, 0, 2, name="yours")])


def test_operands_of_another_form_are_refused() -> None:
    seen = arrivals()
    seen.arrive([arrival({0}, 0, 2)])
    with pytest.raises(InvalidArgumentError, match=r"all-reduce %sum: .*\[4\] and float32\[5\]"):
        seen.arrive([arrival({2}, 0, 2, form="float32[5]")])


def test_who_does_not_come_is_named() -> None:
    seen, some = arrivals(), arrival({2}, 0, 2, 3)
    seen.arrive([some])
    error = seen.late(OPTIONS.key(some.collective), 0)
    assert isinstance(error, DeadlineExceededError)
    assert "{0,2,3} must arrive within 7 s, got none of {0,3}" in error.message
    with pytest.raises(FailedPreconditionError, match=r"got \{3\} ended without it"):
        seen.end(3)
    with pytest.raises(FailedPreconditionError, match=r"got \{3\} ended without it"):
        seen.arrive([arrival({1}, 1, 3)])


def test_ranks_that_wait_for_each_other_are_reported() -> None:
    seen = arrivals()
    seen.arrive([arrival({0}, 0, 2, name="x")])
    seen.arrive([arrival({2}, 2, 3, name="y")])
    seen.end(1)
    with pytest.raises(
        FailedPreconditionError, match="all participants waiting, 2 at all-reduce %y"
    ):
        seen.arrive([arrival({3}, 0, 3, name="z")])


def test_a_collective_that_waits_for_a_silent_rank_is_not_late_yet() -> None:
    """The silent rank is lost within its own time, or speaks again."""
    silent, anything = {1}, Mock()
    mailbox = Mock(is_silent=lambda rank: rank in silent)
    options = RunOptions(1, (0, 1), DeviceGrid(2, 1), 7.0, None, is_one_program=True, is_fast=False)
    run = RemoteRun(options, (), Cancellation(), anything, mailbox, lambda ranks, count: 0)
    some = arrival({0}, 0, 1)
    run.handle(0, Arrive(1, (some,)))
    mailbox.expect.assert_called_once_with()
    key = OPTIONS.key(some.collective)
    run.handle(0, Late(1, key, 0))
    assert run.failure is None
    silent.clear()
    run.handle(0, Late(1, key, 0))
    assert isinstance(run.failure, DeadlineExceededError)
