import ctypes
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from tests.fault.plain import until
from tests.unit.sessions.engines import Pool
from tests.unit.threads import no_threads
from xla_contract.errors import CancelledError
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.cancellation_flag import FLAG_WORDS, HELPED
from xla_server.sessions.limits.blocking import (
    Worker,
    current_worker,
    releasing_slot,
    worker_context,
)
from xla_server.sessions.limits.shares.caller import LOCAL_FLOW, Flow
from xla_server.sessions.runs import time_slicing
from xla_server.sessions.runs.time_slicing import (
    NEW_SECONDS,
    PERIOD,
    SWITCH_SECONDS,
    YOUNG_SECONDS,
    TimeSlice,
    TimeSlicer,
)

OLD = YOUNG_SECONDS + 1


@pytest.fixture(autouse=True)
def _switching() -> Iterator[None]:
    """Schedulers of tests have nothing in common with those of what runs in this process."""
    # Those of tests before may still have Python's lock passed on quickly, for a moment.
    until(lambda: not time_slicing._SWITCHING._owners)
    usual = sys.getswitchinterval()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time_slicing, "_SWITCHING", time_slicing._Switching())
        yield
    sys.setswitchinterval(usual)


def _running(time_slices: list[TimeSlice]) -> set[int]:
    return {number for number, time_slice in enumerate(time_slices) if not time_slice.is_paused}


class _Thread(Worker):
    """The thread of a program, whose processor time the test says."""

    seconds = 0.0

    def processor_seconds(self) -> float:
        return self.seconds


def _of(flow: Flow, count: int) -> list[TimeSlice]:
    return [TimeSlice(Cancellation(), flow, _Thread(None)) for _ in range(count)]


def _turns(count: int) -> list[TimeSlice]:
    return _of(LOCAL_FLOW, count)


def _age(time_slices: list[TimeSlice]) -> None:
    """Let programs be too old to run beside turns."""
    for time_slice in time_slices:
        time_slice.since -= OLD


def _use(time_slices: list[TimeSlice], seconds: float) -> None:
    """Let programs that are not paused take so much processor time."""
    for time_slice in time_slices:
        if isinstance(time_slice.worker, _Thread) and not time_slice.is_paused:
            time_slice.worker.seconds += seconds


def test_what_has_just_begun_runs_however_much_does() -> None:
    time_slices = _turns(20)
    scheduler = TimeSlicer(2)
    for now in (5.0, 5.0 + NEW_SECONDS / 2):
        scheduler.reschedule(time_slices, now)
        assert _running(time_slices) == set(range(20))


def test_no_more_run_than_there_are_cores_and_each_has_its_turn() -> None:
    time_slices, seen = _turns(5), set[int]()
    scheduler = TimeSlicer(2)
    scheduler.reschedule(time_slices, 5.0)
    for number in range(5):
        _use(time_slices, PERIOD)
        scheduler.reschedule(time_slices, 5.0 + OLD + PERIOD * number)
        running = _running(time_slices)
        assert len(running) == 2
        seen |= running
    assert seen == set(range(5))
    # A number of programs up to that of cores needs no turns.
    scheduler.reschedule(time_slices[:2], 5.0 + 2 * OLD)
    assert _running(time_slices[:2]) == {0, 1}


def test_the_next_begins_when_one_ends_and_no_other_is_interrupted() -> None:
    time_slices = _turns(4)
    scheduler = TimeSlicer(2)
    scheduler.reschedule(time_slices, 5.0)
    scheduler.reschedule(time_slices, 5.0 + OLD)
    first, second = (time_slices[number] for number in _running(time_slices))
    left = [time_slice for time_slice in time_slices if time_slice is not first]
    scheduler.reschedule(left, 5.0 + OLD + PERIOD / 2)
    assert not second.is_paused
    assert len(_running(left)) == 2


def test_the_youngest_run_beside_those_that_take_turns() -> None:
    old, scheduler = _turns(6), TimeSlicer(2)
    scheduler.reschedule(old, 5.0)
    scheduler.reschedule(old, 5.0 + OLD)
    young = _turns(3)
    scheduler.reschedule([*old, *young], 5.0 + OLD)
    for number in range(1, 9):
        scheduler.reschedule([*old, *young], 5.0 + OLD + 2 * NEW_SECONDS * number)
        assert sum(time_slice.is_paused for time_slice in young) <= 1
        assert 4 <= sum(time_slice.is_paused for time_slice in old) <= 5
    scheduler.reschedule([*old, *young], 5.0 + 2 * OLD + 1)
    assert len(_running([*old, *young])) == 2


def test_callers_take_turns_whatever_number_of_programs_they_run() -> None:
    greedy, modest = _of(Flow("greedy", "1", "a"), 9), _of(Flow("modest", "2", "b"), 1)
    time_slices, scheduler, counts = [*greedy, *modest], TimeSlicer(1), [0] * 10
    scheduler.reschedule(time_slices, 5.0)
    _age(time_slices)
    for number in range(20):
        scheduler.reschedule(time_slices, 5.0 + PERIOD * number)
        (running,) = _running(time_slices)
        counts[running] += 1
        _use(time_slices, PERIOD)
    assert counts[9] == 10
    # Those of one caller still have the same number of turns each.
    assert max(counts[:9]) - min(counts[:9]) <= 1


@pytest.mark.parametrize("starving", ["greedy", "modest", ""])
def test_a_turn_lasts_until_the_system_has_given_it_a_core(starving: str) -> None:
    """Threads of one client wait for a core five times as long as those of the other one."""
    greedy, modest = _of(Flow("greedy", "1", "a"), 3), _of(Flow("modest", "2", "b"), 1)
    time_slices, scheduler, seconds = [*greedy, *modest], TimeSlicer(1), [0.0] * 4
    scheduler.reschedule(time_slices, 5.0)
    _age(time_slices)
    for number in range(1000):
        scheduler.reschedule(time_slices, 5.0 + PERIOD * number)
        (running,) = _running(time_slices)
        used = PERIOD / 5 if time_slices[running].flow.identity == starving else PERIOD
        seconds[running] += used
        _use(time_slices, used)
    assert seconds[3] == pytest.approx(sum(seconds[:3]), abs=2 * PERIOD)
    assert seconds[:3] == pytest.approx([seconds[3] / 3] * 3, abs=2 * PERIOD)


def test_a_run_outside_of_its_thread_is_charged_wall_time() -> None:
    outside, inside = _of(Flow("greedy", "1", "a"), 1), _of(Flow("modest", "2", "b"), 1)
    time_slices, scheduler, counts = [*outside, *inside], TimeSlicer(1), [0, 0]
    scheduler.reschedule(time_slices, 5.0)
    _age(time_slices)
    with outside[0].cancellation.outside():
        for number in range(100):
            scheduler.reschedule(time_slices, 5.0 + PERIOD * number)
            (running,) = _running(time_slices)
            counts[running] += 1
            _use(time_slices, PERIOD)
    assert counts == pytest.approx([50, 50], abs=2)
    # A thread that sleeps elsewhere has long turns, but does not keep one for ever.
    before = counts[1]
    for number in range(100, 200):
        scheduler.reschedule(time_slices, 5.0 + PERIOD * number)
        (running,) = _running(time_slices)
        counts[running] += 1
        _use(inside, PERIOD)
    assert 0 < counts[1] - before < 10


def test_programs_are_charged_from_begin_to_end_however_rare_polls_are() -> None:
    """Polls see no program of the greedy client to its end."""
    modest, scheduler = _of(Flow("modest"), 1), TimeSlicer(1)
    seconds = dict.fromkeys(("greedy", "modest"), 0.0)
    greedy = _of(Flow("greedy"), 1)
    for number in range(400):
        scheduler.reschedule([*greedy, *modest], 5.0 + OLD * number)
        running = [each for each in (*greedy, *modest) if not each.is_paused]
        for each in running:
            used = 5 * PERIOD / len(running)
            _use([each], used)
            seconds[each.flow.identity] += used
        if number % 2 and not greedy[0].is_paused:
            scheduler.end(greedy[0])
            greedy = _of(Flow("greedy"), 1)
    assert seconds["greedy"] == pytest.approx(seconds["modest"], rel=0.1)


@pytest.mark.parametrize("older", [3, 0])
def test_a_caller_that_begins_programs_all_the_time_has_no_more_than_others(older: int) -> None:
    """Its young programs, beside so many older ones, run only while it is little in advance."""
    modest, scheduler = [*_of(Flow("ada"), 1), *_of(Flow("eve"), 1)], TimeSlicer(1)
    scheduler.reschedule(modest, 5.0)
    _age(modest)
    greedy: list[TimeSlice] = []
    seconds = 0.0
    for number in range(1, 500):
        if number % 5 == 0:
            greedy = [*_of(Flow("greedy"), 1), *greedy[:older]]
        time_slices = [*greedy, *modest]
        scheduler.reschedule(time_slices, 5.0 + PERIOD * number)
        count = len(_running(time_slices))
        seconds += PERIOD / count * len(_running(modest))
        _use(time_slices, PERIOD / count)
    assert seconds > 0.6 * 499 * PERIOD


def test_connections_and_sessions_of_a_caller_take_turns_within_its_own() -> None:
    flows = [Flow("ada", "1", "a"), Flow("ada", "1", "b"), Flow("ada", "2", "c"), Flow("eve")]
    time_slices, scheduler = (
        [time_slice for flow in flows for time_slice in _of(flow, 2)],
        TimeSlicer(1),
    )
    counts = dict.fromkeys(flows, 0)
    scheduler.reschedule(time_slices, 5.0)
    _age(time_slices)
    for number in range(16):
        scheduler.reschedule(time_slices, 5.0 + PERIOD * number)
        (running,) = _running(time_slices)
        counts[time_slices[running].flow] += 1
        _use(time_slices, PERIOD)
    assert list(counts.values()) == [2, 2, 4, 8]


def test_a_caller_that_begins_young_programs_for_ever_leaves_such_slots_to_others() -> None:
    scheduler = TimeSlicer(2)
    first = _of(Flow("modest", "2", "b"), 1)
    scheduler.reschedule(first, 5.0)
    for number in range(1, 9):
        # Younger than the first one, all of them.
        others = _of(Flow("greedy", "1", "a"), 6)
        now = 5.0 + 2 * NEW_SECONDS * number
        scheduler.reschedule([*first, *others], now)
        scheduler.reschedule([*first, *others], now + NEW_SECONDS)
        assert not first[0].is_paused


def test_what_waits_for_others_takes_no_turn_and_is_new_when_it_goes_on() -> None:
    time_slices, scheduler = _turns(4), TimeSlicer(1)
    scheduler.reschedule(time_slices, 5.0)
    scheduler.reschedule(time_slices, 5.0 + OLD)
    waiting = next(time_slice for time_slice in time_slices if time_slice.is_paused)
    waiting.worker.is_waiting = True
    scheduler.reschedule(time_slices, 5.0 + 2 * OLD)
    assert not waiting.is_paused
    waiting.worker.is_waiting = False
    scheduler.reschedule(time_slices, 5.0 + 2 * OLD + NEW_SECONDS / 2)
    assert not waiting.is_paused


def test_what_runs_for_long_lends_its_slot_once_until_it_ends() -> None:
    pool, lent, go_on = Pool(), [], [threading.Event() for _ in range(2)]
    scheduler, begun, over = TimeSlicer(1), threading.Event(), threading.Event()

    def work() -> None:
        worker_context(pool)
        with scheduler.acquired(Cancellation()):
            begun.set()
            go_on[0].wait(100)
            with releasing_slot():
                lent.append(pool.lent)
            lent.append(pool.lent)
            go_on[1].wait(100)
        lent.append(pool.lent)
        over.set()

    threading.Thread(target=work).start()
    assert begun.wait(100)
    assert pool.lent == 0
    until(lambda: pool.lent > 0)
    for event in go_on:
        event.set()
    assert over.wait(100)
    assert lent == [1, 1, 0]


def test_short_executions_are_never_lent() -> None:
    pool, scheduler = Pool(), TimeSlicer(1)
    before = current_worker().pool
    worker_context(pool)
    try:
        for _ in range(1000):
            scheduler.end(scheduler.begin(Cancellation()))
        assert pool.lent == 0
        assert current_worker().time_slice is None
    finally:
        worker_context(before)  # type: ignore[arg-type]


def test_python_s_lock_is_passed_on_sooner_while_something_runs_for_long() -> None:
    usual, time_slices, schedulers = (
        sys.getswitchinterval(),
        _turns(1),
        [TimeSlicer(1), TimeSlicer(1)],
    )
    assert usual > SWITCH_SECONDS
    for scheduler in schedulers:
        scheduler.reschedule(time_slices, 5.0)
    assert sys.getswitchinterval() == usual
    for scheduler in schedulers:
        scheduler.reschedule(time_slices, 5.0 + OLD)
        assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
    # Also of another server in this process.
    schedulers[0].reschedule([], 5.0 + OLD)
    assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
    schedulers[1].reschedule([], 5.0 + OLD)
    assert sys.getswitchinterval() == usual


def test_many_loops_in_python_take_turns_and_end_at_once() -> None:
    """The loops of 30 threads: a clock that stands in line with few of them goes on."""
    scheduler, cancellations = TimeSlicer(1), [Cancellation() for _ in range(30)]

    def loop(cancellation: Cancellation) -> None:
        with scheduler.acquired(cancellation):
            try:
                while True:
                    if cancellation.needs_checkpoint:
                        cancellation.checkpoint()
            except CancelledError:
                pass

    threads = [threading.Thread(target=loop, args=(each,)) for each in cancellations]
    for thread in threads:
        thread.start()
    until(lambda: sum(each.needs_checkpoint for each in cancellations) >= 28)
    for each in cancellations:
        each.cancel()
    for thread in threads:
        thread.join(100)
        assert not thread.is_alive()


def test_executions_run_without_turns_until_there_is_a_thread() -> None:
    scheduler = TimeSlicer(1)
    with no_threads():
        first = scheduler.begin(Cancellation())
    assert not first.since
    second = scheduler.begin(Cancellation())
    until(lambda: bool(first.since and second.since))
    scheduler.end(first)
    scheduler.end(second)


def test_the_processor_time_of_helper_threads_is_charged() -> None:
    (time_slice,) = _turns(1)
    words = (ctypes.c_int64 * FLAG_WORDS).from_address(time_slice.cancellation.flag_address)
    time_slice.charge(5.0)
    words[HELPED] = 3 * 10**9
    _use([time_slice], 1.0)
    assert time_slice.charge(6.0) == 4.0
    assert time_slice.charge(7.0) == time_slicing.MIN_USE


def test_what_a_thread_has_run_before_is_not_charged() -> None:
    scheduler, before = TimeSlicer(1), time.thread_time()
    time_slice = scheduler.begin(Cancellation())
    assert before <= time_slice.processor_seconds <= time.thread_time()
    scheduler.end(time_slice)


def test_what_helper_threads_have_spent_on_a_call_before_is_not_charged_again() -> None:
    scheduler, cancellation = TimeSlicer(1), Cancellation()
    words = (ctypes.c_int64 * FLAG_WORDS).from_address(cancellation.flag_address)
    words[HELPED] = 3 * 10**9
    before = time.thread_time() + 3
    with scheduler.acquired(cancellation):
        (time_slice,) = scheduler._running
        assert before <= time_slice.processor_seconds <= time.thread_time() + 3
