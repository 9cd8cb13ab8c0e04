"""The order in which executions get memory that was freed, and those that never wait."""

import dataclasses
import queue
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.unit.threads import no_threads
from xla_contract.errors import (
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    ResourceExhaustedError,
    XlaError,
)
from xla_server.execution.cancellation import Cancellation
from xla_server.sessions.limits.memory_budget import MemoryBudget
from xla_server.sessions.limits.semaphores import FairSemaphore
from xla_server.sessions.runs.memory_queue import MemoryQueue, Outcome
from xla_server.sessions.values.handles import HandleFactory
from xla_server.sessions.values.value_table import Reservation, ValueTable

LIMIT = 100


@dataclasses.dataclass(eq=False)
class Waiter:
    """An execution in the queue, and its outcome once it has left."""

    give_up: Callable[[], None] = lambda: None
    outcome: Outcome = None

    def result(self) -> Reservation:
        if isinstance(self.outcome, XlaError):
            raise self.outcome
        assert self.outcome is not None
        return self.outcome

    def release(self) -> None:
        self.result().release()


class Case:
    """A queue for LIMIT bytes; `left` has the waiters that have left it, in order."""

    def __init__(self, wait_seconds: float = 60.0, spared: int = 0) -> None:
        self.memory = MemoryBudget(LIMIT, spared_bytes=spared)
        self.queue = MemoryQueue(self.memory, wait_seconds)
        self.left: queue.SimpleQueue[Waiter] = queue.SimpleQueue()
        self.mine = self.table()

    def table(self, max_bytes: int = LIMIT) -> ValueTable:
        return ValueTable(HandleFactory(), self.memory, max_bytes=max_bytes, max_handles=10)

    def run(self, byte_size: int, table: ValueTable | None = None) -> Reservation:
        entered = self.enter(byte_size, table)
        assert isinstance(entered, Reservation)
        return entered

    def wait(self, byte_size: int, table: ValueTable | None = None) -> Waiter:
        entered = self.enter(byte_size, table)
        assert isinstance(entered, Waiter)
        return entered

    def enter(self, byte_size: int, table: ValueTable | None = None) -> Reservation | Waiter:
        waiter = Waiter()

        def left(outcome: Outcome) -> None:
            waiter.outcome = outcome
            self.left.put(waiter)

        entered = self.queue.enter(
            self.mine if table is None else table, byte_size, "an execution", left
        )
        if isinstance(entered, Reservation):
            return entered
        waiter.give_up = entered
        return waiter

    def next(self) -> Waiter:
        return self.left.get(timeout=20)

    def end(self) -> None:
        assert len(self.queue) == 0
        assert self.left.empty()
        assert self.memory.used_bytes == self.memory.staying_bytes == 0


@pytest.fixture
def case() -> Iterator[Case]:
    made = Case()
    yield made
    made.end()


def test_what_fits_begins_at_once(case: Case) -> None:
    first, second = case.run(60), case.run(40)
    assert (case.memory.used_bytes, case.memory.staying_bytes) == (100, 0)
    assert case.queue.waited_seconds == 0
    first.release()
    second.release()


def test_what_does_not_fit_beside_others_waits_for_them_in_order(case: Case) -> None:
    running = case.run(60)
    waiting = [case.wait(60) for _ in range(15)]
    assert len(case.queue) == 15
    for waiter in waiting:
        running.release()
        assert case.next() is waiter
        running = waiter.result()
        assert case.left.empty()
    running.release()


@pytest.mark.parametrize(("spared", "is_first"), [(0, False), (9, False), (10, True)])
def test_only_what_fits_into_the_spared_share_passes_waiters(spared: int, is_first: bool) -> None:
    case = Case(spared=spared)
    running, large = case.run(60), case.wait(60)
    small, another = case.wait(10), case.wait(10)
    if is_first:
        assert case.next() is small
        assert len(case.queue) == 2  # The share allows no other one.
        small.release()
        assert case.next() is another
    running.release()
    assert case.next() is large
    if not is_first:
        assert [case.next(), case.next()] == [small, another]
    for each in (large, small, another):
        each.release()
    case.end()


def test_a_large_one_is_not_starved_by_those_that_pass_it() -> None:
    case = Case(spared=10)
    running, large = case.run(50), case.wait(90)
    for _ in range(20):
        small = case.wait(10)
        assert case.next() is small
        last, following = small, case.wait(5)
        last.release()
        assert case.next() is following
        following.release()
    running.release()
    assert case.next() is large
    large.release()
    case.end()


@pytest.mark.parametrize(
    ("byte_size", "max_bytes", "kept", "rule"),
    [
        (120, 200, 0, r"values may take 100 bytes .*, got 120 bytes more .* with 10 in use"),
        (60, 50, 0, r"values of a session may take 50 bytes .*, got 60 bytes more"),
        (60, 80, 30, r"values of a session may take 80 bytes .*, got 60 bytes more.* 30 in use"),
        (60, 200, 45, r"values may take 100 bytes .*, got 60 bytes more .* with 55 in use"),
    ],
)
def test_what_can_never_fit_is_refused_at_once(
    case: Case, byte_size: int, max_bytes: int, kept: int, rule: str
) -> None:
    table = case.table(max_bytes)
    with case.run(10), table.reserve(kept, "a value"):
        with pytest.raises(ResourceExhaustedError, match=rule):
            case.enter(byte_size, table)
        # Also behind others.
        waiter = case.wait(100 - kept)
        with pytest.raises(ResourceExhaustedError, match=rule):
            case.enter(byte_size, table)
    assert case.next() is waiter
    waiter.release()


def test_who_waits_in_vain_is_notified_when_that_becomes_so(case: Case) -> None:
    running, waiter = case.run(60), case.wait(60)
    running.shrink(50)
    with case.mine.reserve(45, "a value"):
        assert case.next() is waiter
        with pytest.raises(ResourceExhaustedError, match=r"60 bytes more .* with 95 in use"):
            waiter.result()
    running.release()


def test_the_limit_of_a_session_holds_up_that_session_alone(case: Case) -> None:
    small, other = case.table(50), case.table()
    running = case.run(30, small)
    waiting = [case.wait(30, small), case.wait(20, small)]
    beside = case.wait(40, other)
    assert case.next() is beside
    assert len(case.queue) == 2
    running.release()
    assert [case.next(), case.next()] == waiting
    for each in (*waiting, beside):
        each.release()


def test_memory_of_values_that_is_given_back_is_for_waiters(case: Case) -> None:
    value = case.mine.reserve(30, "a value")
    running, waiter = case.run(60), case.wait(70)
    value.release()
    assert len(case.queue) == 1
    running.release()
    assert case.next() is waiter
    waiter.release()


def test_time_to_wait_is_bounded() -> None:
    case = Case(wait_seconds=0.05)
    running, waiter = case.run(60), case.wait(60)
    assert case.next() is waiter
    rule = r"may wait 0\.05 s for memory, got none in that time: .* 100 bytes .* with 60 in use"
    with pytest.raises(ResourceExhaustedError, match=rule):
        waiter.result()
    assert case.queue.waited_seconds >= 0.05
    running.release()
    case.end()


def test_no_time_to_wait_is_none_at_all() -> None:
    case = Case(wait_seconds=0)
    with case.run(60), pytest.raises(ResourceExhaustedError, match=r"60 bytes more"):
        case.enter(60)
    case.end()


def test_the_time_of_who_gives_up_counts(case: Case) -> None:
    running, waiter = case.run(60), case.wait(90)
    assert case.queue.waited_seconds == 0
    waiter.give_up()
    assert case.next() is waiter
    assert case.queue.waited_seconds > 0
    running.release()


def test_who_gives_up_is_out_and_others_go_on(case: Case) -> None:
    running, first, second = case.run(60), case.wait(90), case.wait(40)
    first.give_up()
    assert case.next() is first
    assert first.outcome is None
    assert case.next() is second
    second.give_up()  # Too late, and harmless.
    assert case.left.empty()
    second.release()
    running.release()


def test_sizes_without_bounds_do_not_wait(case: Case) -> None:
    with case.run(60), pytest.raises(InvalidArgumentError, match="must have bounded sizes, got -1"):
        case.enter(-1)


def test_a_thread_waits_until_there_is_memory(case: Case) -> None:
    running = case.run(60)
    got: queue.SimpleQueue[Reservation] = queue.SimpleQueue()

    def wait() -> None:
        got.put(case.queue.reserve(case.mine, 60, "an execution", Cancellation()))

    thread = threading.Thread(target=wait)
    thread.start()
    while not len(case.queue):
        pass
    running.release()
    got.get(timeout=20).release()
    thread.join()


@pytest.mark.parametrize("error", [CancelledError("enough"), DeadlineExceededError("too late")])
def test_a_thread_that_waits_sees_that_its_call_was_cancelled(case: Case, error) -> None:  # type: ignore[no-untyped-def]
    running, cancellation = case.run(60), Cancellation()
    slots = FairSemaphore(1, "slots", "Wait.")
    slots.acquire()
    seen: queue.SimpleQueue[BaseException] = queue.SimpleQueue()

    def wait() -> None:
        try:
            case.queue.reserve(case.mine, 60, "an execution", cancellation, slots)
        except BaseException as caught:
            seen.put(caught)

    thread = threading.Thread(target=wait)
    thread.start()
    while slots.used:
        pass
    slots.acquire()  # A waiter holds none.
    slots.release()
    cancellation.cancel(error)
    assert str(seen.get(timeout=20)) == str(error)
    thread.join()
    assert slots.used == 1
    running.release()


def test_its_thread_ends_with_the_queue(case: Case) -> None:
    running, waiter = case.run(60), case.wait(60)
    thread = case.queue._thread
    assert thread is not None
    running.release()
    case.next().release()
    thread.join(20)
    assert not thread.is_alive()
    assert case.memory.on_change is None
    with case.run(60):
        again = case.wait(60)
    assert case.next() is again
    again.release()
    waiter.release()


def test_who_finds_no_thread_is_refused_and_the_next_waits(case: Case) -> None:
    running = case.run(60)
    with no_threads(), pytest.raises(ResourceExhaustedError, match="able to start threads"):
        case.wait(60)
    waiter = case.wait(60)
    running.release()
    assert case.next() is waiter
    waiter.release()
