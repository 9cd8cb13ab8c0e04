import ctypes
import threading

import pytest

from tests.unit.waiting import waits
from xla_contract.errors import CancelledError, DeadlineExceededError
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.cancellation_flag import GO, STOP, WAIT


def test_the_first_cancel_decides_the_error() -> None:
    cancellation = Cancellation()
    cancellation.check()
    assert not cancellation.is_cancelled
    assert cancellation.error is None
    error = DeadlineExceededError("too late", op="Execute", hint="wait less")
    assert cancellation.cancel(error)
    assert not cancellation.cancel(CancelledError("again"))
    assert cancellation.error is error
    with pytest.raises(DeadlineExceededError, match="too late") as caught:
        cancellation.check()
    assert (caught.value.op, caught.value.hint) == ("Execute", "wait less")


def test_every_raise_is_an_exception_of_its_own() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    caught = []
    for _ in range(2):
        with pytest.raises(CancelledError) as info:
            cancellation.check()
        caught.append(info.value)
    assert caught[0] is not caught[1]


def test_callbacks_run_once_and_at_once_when_late() -> None:
    cancellation = Cancellation()
    calls: list[str] = []
    cancellation.add_callback(lambda: calls.append("kept"))
    remove = cancellation.add_callback(lambda: calls.append("removed"))
    remove()
    remove()
    cancellation.cancel()
    cancellation.cancel()
    assert calls == ["kept"]
    cancellation.add_callback(lambda: calls.append("late"))()
    assert calls == ["kept", "late"]


def test_wakes_a_waiting_thread() -> None:
    cancellation = Cancellation()
    woken = threading.Event()
    cancellation.add_callback(woken.set)
    threading.Thread(target=cancellation.cancel).start()
    assert woken.wait(100)
    assert cancellation.is_cancelled


def test_native_code_sees_the_cancellation_in_a_word() -> None:
    cancellation = Cancellation()
    word = ctypes.c_int64.from_address(cancellation.flag_address)
    assert word.value == 0
    cancellation.cancel()
    assert word.value != 0
    assert cancellation.flag_address == ctypes.addressof(word)


def test_a_word_asked_for_afterwards_is_set() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    assert ctypes.c_int64.from_address(cancellation.flag_address).value != 0


def test_a_paused_run_waits_at_its_checkpoint() -> None:
    cancellation, passed = Cancellation(), threading.Event()
    assert not cancellation.needs_checkpoint
    cancellation.checkpoint()
    cancellation.pause()
    assert cancellation.needs_checkpoint
    assert not cancellation.is_cancelled
    thread = threading.Thread(target=lambda: (cancellation.checkpoint(), passed.set()))
    thread.start()
    assert waits(thread)
    assert not passed.is_set()
    cancellation.proceed()
    assert passed.wait(100)
    assert not cancellation.needs_checkpoint


def test_a_paused_run_can_be_cancelled_and_stays_so() -> None:
    cancellation = Cancellation()
    word = ctypes.c_int64.from_address(cancellation.flag_address)
    cancellation.pause()
    assert word.value == WAIT
    cancellation.cancel()
    cancellation.pause()
    cancellation.proceed()
    assert word.value == STOP
    assert cancellation.needs_checkpoint
    with pytest.raises(CancelledError):
        cancellation.checkpoint()


def test_the_word_of_a_paused_run_says_so_when_it_is_made() -> None:
    cancellation = Cancellation()
    cancellation.pause()
    word = ctypes.c_int64.from_address(cancellation.flag_address)
    assert word.value == WAIT
    cancellation.proceed()
    assert word.value == GO


def test_a_part_is_cancelled_with_the_whole_as_long_as_it_follows() -> None:
    whole = Cancellation()
    with whole.followed() as early:
        pass
    with whole.followed() as part:
        part.pause()
        assert not whole.needs_checkpoint
        whole.cancel(DeadlineExceededError("too late"))
        with pytest.raises(DeadlineExceededError, match="too late"):
            part.check()
    assert not early.is_cancelled
    with whole.followed() as late:
        assert late.is_cancelled
