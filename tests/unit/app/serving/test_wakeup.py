import contextlib
import os
import signal
import threading

import pytest

from xla_server.app.serving.wakeup import TIMED_OUT, Events


@pytest.fixture(autouse=True)
def handlers():
    with contextlib.ExitStack() as stack:
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            stack.callback(signal.signal, number, signal.getsignal(number))
        yield


def test_a_signal_that_came_before_the_wait_is_found():
    with Events([signal.SIGUSR1]) as events:
        os.kill(os.getpid(), signal.SIGUSR1)
        assert events.get() == signal.SIGUSR1


def test_a_signal_ends_a_wait():
    with Events([signal.SIGUSR1]) as events:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        assert events.get() == signal.SIGUSR1


def test_words_of_threads_and_signals_come_in_order():
    with Events([signal.SIGUSR1]) as events:
        other = threading.Thread(target=events.put, args=(0,))
        other.start()
        other.join()
        os.kill(os.getpid(), signal.SIGUSR1)
        assert [events.get(), events.get()] == [0, signal.SIGUSR1]


def test_signals_that_others_handle_are_passed_over():
    signal.signal(signal.SIGUSR2, lambda *_: None)
    with Events([signal.SIGUSR1]) as events:
        os.kill(os.getpid(), signal.SIGUSR2)
        events.put(0)
        assert events.get() == 0


def test_behind_the_block_signals_do_nothing():
    with Events([signal.SIGUSR1]):
        pass
    os.kill(os.getpid(), signal.SIGUSR1)
    assert signal.set_wakeup_fd(-1) == -1


def test_no_word_within_a_time_is_reported():
    with Events([signal.SIGUSR1]) as events:
        assert events.get(0.01) == TIMED_OUT
        events.put(0)
        assert events.get(100) == 0
