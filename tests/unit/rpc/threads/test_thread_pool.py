import contextlib
import logging
import queue
import threading
import time
import weakref

import pytest

from tests.fault.plain import until
from tests.unit.threads import no_threads
from xla_server.rpc.threads.thread_pool import ThreadPool
from xla_server.sessions.limits.blocking import releasing_slot
from xla_server.sessions.limits.shares.caller import Flow
from xla_server.sessions.limits.shares.caller_shares import CallerShares


def test_threads_start_as_they_are_needed_and_are_used_again() -> None:
    threads, names = ThreadPool(4, "test"), []
    for _ in range(20):
        over = threading.Event()
        job = threads.submit(lambda: names.append(threading.current_thread().name))
        job.add_done_callback(lambda _, over=over: over.set())
        assert over.wait(100)
        # The end of a job is reported a moment before its thread is free.
        until(threads.is_idle)
    assert set(names) == {"test_0"}
    threads.shutdown()


def test_jobs_beyond_the_threads_wait_in_order() -> None:
    threads, gate, done = ThreadPool(1, "test"), threading.Event(), []
    threads.submit(gate.wait, 10)
    for number in range(5):
        threads.submit(done.append, number)
    assert not done
    gate.set()
    threads.shutdown()
    assert done == list(range(5))


def test_callers_whose_jobs_wait_take_turns() -> None:
    threads, gate, done = ThreadPool(1, "test"), threading.Event(), list[str]()
    threads.submit(gate.wait, 10)
    for number in range(3):
        threads.submit_for(Flow("greedy", "1", "a"), done.append, f"greedy {number}")
    threads.submit_for(Flow("modest", "2", "b"), done.append, "modest")
    assert threads.waiting == 4
    gate.set()
    threads.shutdown()
    assert done == ["greedy 0", "modest", "greedy 1", "greedy 2"]


def test_a_job_that_had_to_wait_for_its_caller_s_share_runs_when_a_thread_leaves() -> None:
    """The thread that frees the share is one too many, and another one is idle."""
    threads = ThreadPool(3, "test", shares=CallerShares(0.5, 0.5))
    mine, others = Flow("ada", "1"), [Flow("eve", "2"), Flow("joe", "3"), Flow("kim", "4")]
    gate, lent, first = threading.Event(), threading.Event(), threading.Event()
    begun, done = threading.Semaphore(0), threading.Event()

    def wait_for(event: threading.Event) -> None:
        begun.release()
        event.wait(100)

    def lend() -> None:
        with releasing_slot():
            wait_for(lent)

    threads.submit_for(others[0], lend)
    threads.submit_for(mine, wait_for, first)
    for flow in others[1:]:
        threads.submit_for(flow, wait_for, gate)
    for _ in range(4):
        assert begun.acquire(timeout=10)
    threads.submit_for(mine, done.set)
    assert threads.waiting == 1
    # Two idle threads of four, of which there are to be three.
    gate.set()
    until(lambda: threads._spare == 2)
    lent.set()
    until(lambda: threads.count == 3)
    first.set()
    assert done.wait(100)
    threads.shutdown()


def test_the_end_of_a_job_is_delivered_once_also_to_later_callbacks() -> None:
    threads, reported = ThreadPool(1, "test"), []
    job = threads.submit(reported.append, "run")
    job.add_done_callback(lambda each: reported.append(each is job))
    threads.shutdown()
    job.add_done_callback(lambda _: reported.append("later"))
    assert reported == ["run", True, "later"]


def test_a_job_that_fails_is_logged_and_its_thread_goes_on(caplog) -> None:
    threads, done = ThreadPool(1, "test"), threading.Event()
    with caplog.at_level(logging.ERROR):
        threads.submit(lambda: 1 // 0)
        threads.submit(done.set)
        assert done.wait(100)
    assert "ZeroDivisionError" in caplog.text
    threads.shutdown()


def test_an_idle_thread_holds_nothing() -> None:
    class Held:
        def __call__(self) -> None:
            pass

    threads, over, held = ThreadPool(1, "test"), threading.Event(), Held()
    gone = weakref.ref(held)
    threads.submit(held)
    threads.submit(lambda: None).add_done_callback(lambda _: over.set())
    del held
    assert over.wait(100)
    assert gone() is None
    threads.shutdown()


def test_a_thread_that_waits_lends_its_slot() -> None:
    threads, gate, done = ThreadPool(1, "test"), threading.Event(), queue.SimpleQueue[int]()

    def wait() -> None:
        with releasing_slot():
            gate.wait(100)
        done.put(0)

    # Those in line when it begins to wait, and those that come while it does.
    ready = threading.Event()
    threads.submit(lambda: ready.wait(100) and wait())
    threads.submit(done.put, 1)
    ready.set()
    assert done.get(timeout=10) == 1
    for number in (2, 3):
        threads.submit(done.put, number)
        assert done.get(timeout=10) == number
    # Two that wait take a thread each.
    threads.submit(wait)
    threads.submit(done.put, 4)
    assert done.get(timeout=10) == 4
    gate.set()
    assert [done.get(timeout=10) for _ in range(2)] == [0, 0]
    threads.shutdown()


def test_there_are_as_many_at_work_as_before_when_slots_were_taken_back() -> None:
    threads, gate = ThreadPool(2, "test"), threading.Event()
    at_work, most, changing, woken = 0, 0, threading.Lock(), threading.Semaphore(0)

    def work() -> None:
        nonlocal at_work, most
        with changing:
            at_work += 1
            most = max(most, at_work)
        # Those that a thread too many has begun are seen beside this one.
        time.sleep(0)
        with changing:
            at_work -= 1

    def wait() -> None:
        with releasing_slot():
            gate.wait(100)
        woken.release()

    for _ in range(8):
        threads.submit(wait)
    for _ in range(20):
        threads.submit(work)
    gate.set()
    for _ in range(8):
        assert woken.acquire(timeout=10)
    with changing:
        most = 0
    for _ in range(40):
        threads.submit(work)
    threads.shutdown()
    assert 1 <= most <= 2


def test_a_bounded_number_of_slots_is_lent() -> None:
    threads, gate, done = ThreadPool(1, "test", max_lent=1), threading.Event(), list[int]()
    waiting: list[int] = []

    def wait() -> None:
        with releasing_slot():
            waiting.append(0)
            gate.wait(100)
        done.append(0)

    for _ in range(2):
        threads.submit(wait)
    threads.submit(done.append, 1)
    until(lambda: len(waiting) == 2)
    # A slot that is lent has a job at once.
    assert threads.waiting == 1
    gate.set()
    threads.shutdown()
    assert done == [0, 0, 1] or done == [0, 1, 0]


def test_closed_threads_take_nothing() -> None:
    threads = ThreadPool(1, "test")
    threads.shutdown()
    with pytest.raises(RuntimeError, match="must be open"):
        threads.submit(print)


def test_jobs_wait_for_the_threads_there_are_where_the_system_has_no_more() -> None:
    threads, gate, done = ThreadPool(4, "test"), threading.Event(), threading.Event()
    with no_threads():
        threads.submit(gate.wait, 10)
        threads.submit(done.set)
        assert threads.waiting == 1
        gate.set()
        assert done.wait(100)
    threads.shutdown()


def test_a_pool_is_larger_for_a_while() -> None:
    threads, gate, done = ThreadPool(1, "test"), threading.Event(), threading.Event()
    with threads.larger(1):
        threads.submit(gate.wait, 10)
        threads.submit(done.set)
        assert done.wait(100)
    done.clear()
    gate.set()
    threads.submit(done.set)
    assert done.wait(100)
    threads.shutdown()


@pytest.mark.parametrize("is_lent", [False, True])
def test_idle_threads_beyond_the_limit_end(is_lent: bool) -> None:
    threads, meeting, done = ThreadPool(2, "test"), threading.Barrier(4), list[int]()
    with contextlib.ExitStack() as more:
        if is_lent:
            for _ in range(2):
                assert threads.lend()
                more.callback(threads.reclaim)
        else:
            more.enter_context(threads.larger(2))
        for _ in range(4):
            threads.submit(meeting.wait, 100)
        until(threads.is_idle)
        assert threads.count == 4
    until(lambda: threads.count == 2)
    assert threads.is_idle()
    for number in range(10):
        threads.submit(done.append, number)
    threads.shutdown()
    assert sorted(done) == list(range(10))
