"""Turns for making large answers."""

import threading
from collections.abc import Callable

import pytest

from tests.fault.plain import until
from xla_server.rpc.calls.response_turns import ResponseTurns
from xla_server.rpc.threads.thread_pool import ThreadPool
from xla_server.sessions.limits.shares.caller import Flow

STORM, OTHER = Flow("a", "storm"), Flow("a", "other")


def begin(turns: ResponseTurns, flow: Flow, do: Callable[[], object]) -> threading.Thread:
    """Start a thread that calls `do` in its turn, once it waits for it."""

    def wait() -> None:
        with turns.turn(flow):
            do()

    waiting = turns.waiting
    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: turns.waiting > waiting)
    return thread


def test_one_has_the_turn_and_connections_alternate() -> None:
    turns, order = ResponseTurns(), list[str]()
    with turns.turn(STORM):
        threads = [begin(turns, STORM, lambda: order.append("storm")) for _ in range(3)]
        threads.append(begin(turns, OTHER, lambda: order.append("other")))
        assert not order
    for thread in threads:
        thread.join()
    assert order == ["storm", "other", "storm", "storm"]
    assert not turns.waiting


def test_a_turn_that_fails_is_passed_on() -> None:
    turns, done, threads = ResponseTurns(), threading.Event(), list[threading.Thread]()

    def fail() -> None:
        with turns.turn(STORM):
            threads.append(begin(turns, OTHER, done.set))
            raise ValueError("not made")

    with pytest.raises(ValueError, match="not made"):
        fail()
    threads[0].join()
    assert done.is_set()
    with turns.turn(STORM):
        assert not turns.waiting


def test_threads_that_wait_lend_their_slots() -> None:
    turns, others = ResponseTurns(), threading.Event()
    threads = ThreadPool(1, "turns")

    def wait() -> None:
        with turns.turn(STORM):
            pass

    with turns.turn(STORM):
        threads.submit(wait)
        until(lambda: turns.waiting == 1)
        threads.submit(others.set)
        others.wait()
        assert turns.waiting == 1
    threads.shutdown()
