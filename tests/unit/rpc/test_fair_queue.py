import queue
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from xla_server.rpc.fair_queue import FairQueue
from xla_server.rpc.threads import Threads
from xla_server.sessions.caller import Caller
from xla_server.sessions.caller_shares import EVERYTHING, CallerShares

SHARES = CallerShares(0.875, 0.75)


def _job(identity: str, connection: str, name: int = 0) -> Any:
    return SimpleNamespace(caller=Caller(identity, connection), name=name)


def test_identities_take_turns_and_connections_within_them() -> None:
    jobs = FairQueue(100, EVERYTHING)
    for number in range(4):
        jobs.put(_job("greedy", "1", number))
    for identity, connection in (("greedy", "2"), ("modest", "3"), ("modest", "3")):
        jobs.put(_job(identity, connection))
    order = [jobs.get() for _ in range(7)]
    assert [(each.caller.connection, each.name) for each in order] == [  # type: ignore[attr-defined, union-attr]
        ("1", 0),
        ("3", 0),
        ("2", 0),
        ("3", 0),
        ("1", 1),
        ("1", 2),
        ("1", 3),
    ]


def test_a_thread_is_left_for_others() -> None:
    jobs = FairQueue(4, SHARES)
    for _ in range(5):
        jobs.put(_job("greedy", "1"))
    running = [jobs.get() for _ in range(3)]
    jobs.put(_job("modest", "2"))
    modest = jobs.get()
    assert modest is not None
    assert modest.caller == Caller("modest", "2")
    waiting = threading.Thread(target=jobs.get, daemon=True)
    waiting.start()
    jobs.done(modest)
    # The caller gets no slot that another caller has freed, but one that it has freed itself.
    assert len(jobs._waiting["greedy"]["1"]) == 2
    first = running[0]
    assert first is not None
    jobs.done(first)
    waiting.join(20)
    assert len(jobs._waiting["greedy"]["1"]) == 1


def test_jobs_of_nobody_are_done_and_none_ends_a_thread_after_them() -> None:
    jobs = FairQueue(1, SHARES)
    jobs.put(None)
    jobs.put(SimpleNamespace(caller=None))
    job = jobs.get()
    assert job is not None
    jobs.done(job)
    assert jobs.get() is None
    with pytest.raises(queue.Empty):
        jobs.get_nowait()
    jobs.put(_job("ada", "1"))
    assert jobs.get_nowait() is not None


def test_a_pool_of_threads_does_all_jobs_of_one_caller_in_the_threads_it_may_have() -> None:
    threads = Threads(4, "test", shares=SHARES)
    going_on, most = threading.Event(), [0]
    lock, running, is_over = threading.Lock(), [0], threading.Event()
    three, done = threading.Event(), [0]

    def work() -> None:
        with lock:
            running[0] += 1
            most[0] = max(most)
            most[0] = max(most[0], running[0])
            if running[0] == 3:
                three.set()
        going_on.wait(20)
        with lock:
            running[0] -= 1
            done[0] += 1
            if done[0] == 9:
                is_over.set()

    for _ in range(9):
        threads.submit(work)
    assert three.wait(20)
    going_on.set()
    assert is_over.wait(20)
    assert most[0] == 3
    threads.shutdown(wait=True, cancel_futures=True)
