import logging
import threading
import weakref

import pytest

from xla_server.rpc.threads import Threads


def test_threads_start_as_they_are_needed_and_are_used_again() -> None:
    threads, names = Threads(4, "test"), []
    for _ in range(20):
        over = threading.Event()
        job = threads.submit(lambda: names.append(threading.current_thread().name))
        job.add_done_callback(lambda _, over=over: over.set())
        assert over.wait(10)
    # The end of a job is told a moment before its thread is free.
    assert set(names) <= {"test_0", "test_1"}
    threads.shutdown()


def test_jobs_beyond_the_threads_wait_in_order() -> None:
    threads, gate, done = Threads(1, "test"), threading.Event(), []
    threads.submit(gate.wait, 10)
    for number in range(5):
        threads.submit(done.append, number)
    assert not done
    gate.set()
    threads.shutdown()
    assert done == list(range(5))


def test_the_end_of_a_job_is_told_once_also_to_who_asks_later() -> None:
    threads, told = Threads(1, "test"), []
    job = threads.submit(told.append, "run")
    job.add_done_callback(lambda each: told.append(each is job))
    threads.shutdown()
    job.add_done_callback(lambda _: told.append("later"))
    assert told == ["run", True, "later"]


def test_a_job_that_fails_is_logged_and_its_thread_goes_on(caplog) -> None:
    threads, done = Threads(1, "test"), threading.Event()
    with caplog.at_level(logging.ERROR):
        threads.submit(lambda: 1 // 0)
        threads.submit(done.set)
        assert done.wait(10)
    assert "ZeroDivisionError" in caplog.text
    threads.shutdown()


def test_an_idle_thread_holds_nothing() -> None:
    class Held:
        def __call__(self) -> None:
            pass

    threads, over, held = Threads(1, "test"), threading.Event(), Held()
    gone = weakref.ref(held)
    threads.submit(held)
    threads.submit(lambda: None).add_done_callback(lambda _: over.set())
    del held
    assert over.wait(10)
    assert gone() is None
    threads.shutdown()


def test_closed_threads_take_nothing() -> None:
    threads = Threads(1, "test")
    threads.shutdown()
    with pytest.raises(RuntimeError, match="must be open"):
        threads.submit(print)
