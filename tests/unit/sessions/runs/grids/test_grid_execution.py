"""Participants of a grid that meet, fail and end."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.fault.plain import until
from xla_contract.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    FailedPreconditionError,
    ResourceExhaustedError,
    UnavailableError,
)
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.opcode import Opcode
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.collectives_protocol import ALONE_RUN, Collectives
from xla_server.ops.evaluation import Crossing, GroupCollective
from xla_server.sessions.limits.blocking import Worker, current_worker
from xla_server.sessions.runs.grids import grid_execution
from xla_server.sessions.runs.grids.grid_execution import run_on_grid
from xla_server.sessions.runs.grids.participant_threads import start

Job = Callable[[Collectives, Cancellation], Any]
FOREVER = 1000.0


def collective(name: str, members: Sequence[int], channel: int = 1) -> GroupCollective:
    return GroupCollective(name, Opcode.ALL_REDUCE, channel, tuple(members))


def run(jobs: Sequence[Job], timeout: float = FOREVER, **options: Any) -> list[Any]:
    cancellation = options.pop("cancellation", None) or Cancellation()
    grid = DeviceGrid(1, len(jobs))
    return run_on_grid(jobs, grid, cancellation, timeout_seconds=timeout, **options)


def wait_for_cancellation(_: Collectives, cancellation: Cancellation) -> None:
    woken = threading.Event()
    cancellation.add_callback(woken.set)
    assert woken.wait(100)
    cancellation.check()


def test_participants_know_their_place_and_share_what_all_gave() -> None:
    def job(me: Collectives, _: Cancellation) -> Any:
        place = me.grid.flattened(me.replica_id, me.partition_id)
        everything = collective("all", range(6))
        return place, [me.exchange(everything, (place, trip), tuple) for trip in range(3)]

    results = run_on_grid([job] * 6, DeviceGrid(2, 3), Cancellation(), timeout_seconds=FOREVER)
    for number, (place, shared) in enumerate(results):
        assert place == number
        assert shared == [tuple((each, trip) for each in range(6)) for trip in range(3)]


def test_one_participant_runs_alone() -> None:
    assert run([lambda me, _: me]) == [ALONE_RUN]


def test_what_was_given_comes_in_the_order_of_the_group() -> None:
    def described() -> Crossing:
        raise AbortedError("there are no other hosts")

    def job(me: Collectives, _: Cancellation) -> Any:
        group = (2, 0) if me.partition_id != 1 else (1,)
        return me.exchange(collective("some", group), me.partition_id, list, crossing=described)

    assert run([job] * 3) == [[2, 0], [1], [2, 0]]


def test_a_participant_that_waits_takes_no_turns_from_those_it_waits_for() -> None:
    workers: list[Worker] = []

    def waits(me: Collectives, _: Cancellation) -> bool:
        workers.append(current_worker())
        me.exchange(collective("both", range(2)), None, list)
        return workers[0].is_waiting

    def comes(me: Collectives, _: Cancellation) -> bool:
        until(lambda: workers and workers[0].is_waiting)
        me.exchange(collective("both", range(2)), None, list)
        return True

    assert run([comes, waits]) == [True, False]


def test_nobody_leaves_before_all_have_worked() -> None:
    done: list[int] = []

    def job(me: Collectives, _: Cancellation) -> int:
        def work(_: object, place: int) -> None:
            done.append(place)

        me.exchange(collective("all", range(4)), None, list, work)
        return len(done)

    assert run([job] * 4) == [4] * 4


@pytest.mark.parametrize("failing", [0, 2])
def test_the_first_failure_ends_the_others_and_is_the_one_raised(failing: int) -> None:
    def fail(me: Collectives, _: Cancellation) -> None:
        raise AbortedError("mine")

    def job(me: Collectives, _: Cancellation) -> None:
        me.exchange(collective("all", range(3)), None, list)

    jobs: list[Job] = [job, wait_for_cancellation, job]
    jobs[failing] = fail
    with pytest.raises(AbortedError, match=r"^mine$"):
        run(jobs)


@pytest.mark.parametrize("phase", ["share", "work"])
def test_a_failure_within_a_collective_reaches_all(phase: str) -> None:
    def job(me: Collectives, _: Cancellation) -> None:
        def fail(*_: object) -> Any:
            raise AbortedError("mine")

        if phase == "share":
            me.exchange(collective("all", range(3)), None, fail)
        me.exchange(collective("all", range(3)), None, list, fail)

    with pytest.raises(AbortedError, match=r"^mine$"):
        run([job] * 3)


def test_an_error_that_is_no_status_is_raised_as_it_is() -> None:
    def fail(me: Collectives, _: Cancellation) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run([wait_for_cancellation, fail])


def test_who_ends_without_arriving_is_named_at_once() -> None:
    def job(me: Collectives, _: Cancellation) -> None:
        if me.partition_id != 1:
            me.exchange(collective("psum.3", range(3)), None, list)

    with pytest.raises(
        FailedPreconditionError,
        match=r"^all-reduce %psum\.3: every participant of the group \{0,1,2\} must arrive, got "
        r"\{1\} ended without it$",
    ):
        run([job] * 3)


def test_other_numbers_of_trips_are_found_at_once() -> None:
    def job(me: Collectives, _: Cancellation) -> None:
        for _trip in range(3 + (me.partition_id == 1)):
            me.exchange(collective("all", range(2)), None, list)

    with pytest.raises(FailedPreconditionError, match=r"\{0\} ended without it"):
        run([job] * 2)


def test_collectives_that_wait_for_each_other_are_named_at_once() -> None:
    def job(me: Collectives, _: Cancellation) -> None:
        names = ["a", "b"] if me.partition_id == 0 else ["b", "a"]
        for name in names:
            me.exchange(collective(name, range(2)), None, list)

    with pytest.raises(
        FailedPreconditionError,
        match=r"got all participants waiting, (0 at all-reduce %a|1 at all-reduce %b)$",
    ):
        run([job] * 2)


def test_who_is_late_is_named_after_the_time() -> None:
    def job(me: Collectives, cancellation: Cancellation) -> None:
        if me.partition_id == 1:
            wait_for_cancellation(me, cancellation)
        me.exchange(collective("all", range(3)), None, list)

    with pytest.raises(
        DeadlineExceededError, match=r"\{0,1,2\} must arrive within 0\.01 s, got none of \{1"
    ):
        run([job] * 3, 0.01)


def test_cancellation_ends_waiters() -> None:
    cancellation = Cancellation()

    def job(me: Collectives, own: Cancellation) -> None:
        if me.partition_id == 1:
            cancellation.cancel(UnavailableError("closing"))
            wait_for_cancellation(me, own)
        me.exchange(collective("all", range(2)), None, list)

    with pytest.raises(UnavailableError, match="closing"):
        run([job] * 2, cancellation=cancellation)
    with pytest.raises(UnavailableError, match="closing"):
        run([job] * 2, cancellation=cancellation)


def test_programs_of_their_own_meet_by_channel() -> None:
    def job(me: Collectives, _: Cancellation) -> Any:
        name = f"reduce.{me.partition_id}"
        return [
            me.exchange(collective(name, range(2), channel), (me.partition_id, channel), list)
            for channel in (7, 8)
        ]

    assert run([job] * 2, is_one_program=False) == [[[(0, 7), (1, 7)], [(0, 8), (1, 8)]]] * 2


def test_there_is_a_thread_for_each_of_many() -> None:
    def job(me: Collectives, _: Cancellation) -> int:
        return len(me.exchange(collective("all", range(64)), threading.get_ident(), set))

    for _ in range(2):
        assert run([job] * 64) == [64] * 64


def test_a_participant_without_a_thread_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []

    def start_one(job: Callable[[], None]) -> None:
        if begun:
            raise RuntimeError("can't start new thread")
        begun.append(job)
        start(job)

    monkeypatch.setattr(grid_execution, "start", start_one)
    with pytest.raises(ResourceExhaustedError, match=r"of 4 .* a thread, got none for number 2"):
        run([lambda me, _: me.exchange(collective("all", range(4)), 0, tuple)] * 4)
    assert len(begun) == 1


def test_a_cancelled_participant_raises_what_the_run_failed_with() -> None:
    seen: list[str] = []

    def job(me: Collectives, _: Cancellation) -> None:
        if me.partition_id == 0:
            raise ZeroDivisionError
        try:
            me.exchange(collective("all", range(2)), None, list)
        except CancelledError as error:
            seen.append(error.message)
            raise

    with pytest.raises(ZeroDivisionError):
        run([job] * 2)
    assert seen == ["another participant failed"]
