"""Ctrl-C in blocks that it must not end halfway."""

import signal
import threading

import pytest

from xla_client.transport.signal_guard import DeferredInterrupt

pytestmark = pytest.mark.usefixtures("ctrl_c_raises")


def test_a_block_comes_to_its_end_before_the_interrupt() -> None:
    given_up = threading.Event()
    steps = []

    def block() -> None:
        with DeferredInterrupt(given_up.set):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            steps.append(given_up.wait(100))

    with pytest.raises(KeyboardInterrupt):
        block()
    assert steps == [True]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_giving_up_is_done_in_another_thread() -> None:
    lock = threading.RLock()
    threads: list[int] = []
    done = threading.Event()

    def give_up() -> None:
        with lock:
            threads.append(threading.get_ident())
        done.set()

    def block() -> None:
        with DeferredInterrupt(give_up):
            with lock:
                signal.raise_signal(signal.SIGINT)
                assert not threads
            assert done.wait(100)

    with pytest.raises(KeyboardInterrupt):
        block()
    other, this = threads
    assert other != this == threading.get_ident()


def test_an_interrupt_goes_before_the_error_that_comes_of_giving_up() -> None:
    given_up = threading.Event()

    def block() -> None:
        with DeferredInterrupt(given_up.set):
            signal.raise_signal(signal.SIGINT)
            assert given_up.wait(100)
            raise ValueError("given up")

    with pytest.raises(KeyboardInterrupt):
        block()


def test_a_block_inside_another_leaves_the_interrupt_to_it() -> None:
    given_up = threading.Event()
    steps = []

    def block() -> None:
        with DeferredInterrupt(given_up.set):
            with DeferredInterrupt(lambda: steps.append("inner")):
                signal.raise_signal(signal.SIGINT)
            steps.append("behind")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert steps == ["behind"]


def test_who_handles_ctrl_c_otherwise_sees_it_as_it_comes() -> None:
    seen: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    with DeferredInterrupt(lambda: seen.append(0)):
        signal.raise_signal(signal.SIGINT)
        assert seen == [signal.SIGINT]
    assert seen == [signal.SIGINT]


def test_other_threads_are_left_alone() -> None:
    failed: list[BaseException] = []

    def work() -> None:
        try:
            with DeferredInterrupt(lambda: None):
                assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failed
