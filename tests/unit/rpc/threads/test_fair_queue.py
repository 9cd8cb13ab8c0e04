import threading
from typing import NamedTuple

import pytest

from xla_server.rpc.threads.fair_queue import FairQueue
from xla_server.rpc.threads.thread_pool import ThreadPool
from xla_server.sessions.limits.shares.caller import Flow
from xla_server.sessions.limits.shares.caller_shares import CallerShares

SHARES = CallerShares(0.875, 0.75)


class Job(NamedTuple):
    flow: Flow
    number: int = 0


def _job(identity: str, connection: str, number: int = 0, session: str = "") -> Job:
    return Job(Flow(identity, connection, session), number)


def _popped(jobs: FairQueue[Job]) -> list[Job]:
    taken = []
    while (job := jobs.pop()) is not None:
        taken.append(job)
    return taken


def test_identities_take_turns_and_connections_within_them() -> None:
    jobs = FairQueue[Job](100)
    for number in range(4):
        jobs.append(_job("greedy", "1", number))
    for identity, connection in (("greedy", "2"), ("modest", "3"), ("modest", "3")):
        jobs.append(_job(identity, connection))
    assert len(jobs) == 7
    assert [(job.flow.connection, job.number) for job in _popped(jobs)] == [
        ("1", 0),
        ("3", 0),
        ("2", 0),
        ("3", 0),
        ("1", 1),
        ("1", 2),
        ("1", 3),
    ]
    assert len(jobs) == 0


def test_sessions_of_a_connection_take_turns() -> None:
    jobs = FairQueue[Job](100)
    for number in range(3):
        jobs.append(_job("ada", "1", number, "a"))
    jobs.append(_job("ada", "1", 0, "b"))
    order = [(job.flow.session, job.number) for job in _popped(jobs)]
    assert order == [("a", 0), ("b", 0), ("a", 1), ("a", 2)]


def test_a_thread_is_left_for_others() -> None:
    jobs = FairQueue[Job](4, SHARES)
    mine = [_job("greedy", str(number % 2), number) for number in range(5)]
    for job in mine[:3]:
        assert jobs.start(job)
    assert not jobs.start(mine[3])
    for job in mine[3:]:
        jobs.append(job)
    assert jobs.pop() is None
    modest = _job("modest", "2")
    jobs.append(modest)
    assert jobs.pop() is modest
    jobs.done(modest)
    # The caller gets no thread that another caller has freed, but one that it has freed itself.
    assert jobs.pop() is None
    jobs.done(mine[0])
    assert jobs.pop() is mine[3]
    assert jobs.pop() is None


@pytest.mark.parametrize(("threads", "most"), [(8, 6), (4, 2)])
def test_another_connection_of_an_identity_has_what_is_left_of_its_share(
    threads: int, most: int
) -> None:
    jobs = FairQueue[Job](threads, SHARES)
    for _ in range(most):
        assert jobs.start(_job("ada", "1"))
    assert not jobs.start(_job("ada", "1"))
    assert jobs.start(_job("ada", "2"))
    assert not jobs.start(_job("ada", "3"))
    assert jobs.start(_job("eve", "4"))


def test_jobs_that_are_not_to_run_are_taken_out() -> None:
    jobs = FairQueue[Job](1, SHARES)
    assert jobs.start(_job("ada", "1"))
    waiting = [_job("ada", "1", number) for number in range(3)]
    for job in waiting:
        jobs.append(job)
    assert jobs.pop_all() == waiting
    assert len(jobs) == 0
    assert jobs.pop() is None


def test_a_pool_of_threads_does_all_jobs_of_one_caller_in_the_threads_it_may_have() -> None:
    threads = ThreadPool(4, "test", shares=SHARES)
    going_on, most = threading.Event(), [0]
    lock, running, is_over = threading.Lock(), [0], threading.Event()
    three, done = threading.Event(), [0]

    def work() -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
            if running[0] == 3:
                three.set()
        going_on.wait(100)
        with lock:
            running[0] -= 1
            done[0] += 1
            if done[0] == 9:
                is_over.set()

    for _ in range(9):
        threads.submit(work)
    assert three.wait(100)
    assert threads.waiting == 6
    going_on.set()
    assert is_over.wait(100)
    assert most[0] == 3
    threads.shutdown(wait=True, cancel_futures=True)
