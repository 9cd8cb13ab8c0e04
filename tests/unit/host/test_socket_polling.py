import ctypes
import os
import socket
import threading
import time
from types import SimpleNamespace

import pytest

from xla_host import socket_polling
from xla_host.socket_polling import (
    LONG_SECONDS,
    SPIN_SECONDS,
    migrate_thread,
    poll_recv,
    recv_spinning,
)


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def test_what_is_there_is_given_up_to_so_much(pair):
    pair[1].send(b"12345")
    assert poll_recv(pair[0], 3) == b"123"
    assert recv_spinning(pair[0], 3) == b"45"


@pytest.mark.parametrize("seconds", [SPIN_SECONDS / 4, 20 * SPIN_SECONDS])
def test_what_comes_later_is_waited_for(pair, seconds):
    threading.Timer(seconds, pair[1].send, (b"1",)).start()
    assert recv_spinning(pair[0], 3) == b"1"


@pytest.mark.parametrize("seconds", [0, 20 * SPIN_SECONDS])
def test_the_end_is_no_byte(pair, seconds):
    threading.Timer(seconds, pair[1].shutdown, (socket.SHUT_RDWR,)).start()
    assert recv_spinning(pair[0], 3) == b""
    assert poll_recv(pair[0], 3) == b""


def test_what_does_not_come_soon_is_none(pair):
    assert poll_recv(pair[0], 3) is None


def test_who_waits_for_nothing_sleeps_until_the_time_is_over(pair):
    pair[0].settimeout(0.2)
    before = time.thread_time()
    with pytest.raises(TimeoutError):
        recv_spinning(pair[0], 3)
    assert time.thread_time() - before < 0.1


def test_who_shares_a_processor_with_another_leaves_it(pair, monkeypatch):
    left, clock = [], [0.0]

    def give_for(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(socket_polling, "migrate_thread", lambda: left.append(1))
    # A clock of the test's own, as a busy machine may take the processor from it at any time.
    monkeypatch.setattr(socket_polling, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(os, "sched_yield", lambda: give_for(LONG_SECONDS / 2))
    assert poll_recv(pair[0], 3) is None
    assert not left
    monkeypatch.setattr(os, "sched_yield", lambda: give_for(2 * LONG_SECONDS))
    assert poll_recv(pair[0], 3) is None
    assert left


def test_a_processor_is_left_for_one_that_is_allowed():
    allowed, processor = os.sched_getaffinity(0), ctypes.CDLL(None).sched_getcpu
    try:
        changes = set()
        for _ in range(20):  # The system may move a thread at any time, too.
            here = processor()
            migrate_thread()
            changes.add(processor() != here)
            assert os.sched_getaffinity(0) == allowed
        assert len(allowed) == 1 or True in changes
        os.sched_setaffinity(0, {here})
        migrate_thread()
        assert os.sched_getaffinity(0) == {processor()} == {here}
    finally:
        os.sched_setaffinity(0, allowed)
