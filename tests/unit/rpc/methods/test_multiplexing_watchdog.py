import threading
import time

import pytest

from tests.fault.plain import until
from tests.unit.threads import no_threads
from xla_contract.errors import ResourceExhaustedError
from xla_server.rpc.methods.multiplexing_watchdog import StreamWatchdog


class Stream:
    """A stream that notes what the watch does with it."""

    def __init__(self) -> None:
        self.answering = 0
        self.handed_over: list[int] = []
        self.deadline: float | None = None
        self.was_late = threading.Event()

    def hand_over(self, number: int) -> None:
        self.handed_over.append(number)
        self.answering = 0

    def end_late_calls(self, now: float) -> float | None:
        if self.deadline is not None and self.deadline <= now:
            self.was_late.set()
            self.deadline = None
        return self.deadline


def test_a_stream_that_answers_for_long_is_read_by_another_thread() -> None:
    watch, busy, idle = StreamWatchdog(), Stream(), Stream()
    with watch.watching(busy), watch.watching(idle):
        busy.answering = 7
        until(lambda: busy.handed_over == [7])
    assert idle.handed_over == []


def test_it_sleeps_when_nothing_happens_until_it_is_woken_or_a_deadline_comes() -> None:
    watch, stream = StreamWatchdog(), Stream()
    with watch.watching(stream):
        until(lambda: watch.is_asleep)
        stream.answering = 3
        watch.wake()
        until(lambda: stream.handed_over == [3])
        stream.deadline = time.monotonic() + 0.3
        # A thread that adds a deadline does so: the watchdog may be asleep by now.
        watch.wake()
        until(lambda: watch.is_asleep)
        assert stream.was_late.wait(100)
    until(lambda: not _is_running())
    # The next stream finds a thread again.
    with watch.watching(stream):
        stream.answering = 4
        until(lambda: stream.handed_over == [3, 4])


def test_a_deadline_later_than_any_clock_does_not_end_the_watch() -> None:
    watch, stream = StreamWatchdog(), Stream()
    with watch.watching(stream):
        stream.deadline = time.monotonic() + 2**64 / 1000
        until(lambda: watch.is_asleep)
        stream.answering = 1
        watch.wake()
        until(lambda: stream.handed_over == [1])


def _is_running() -> bool:
    return any(thread.name == "xla-conversations" for thread in threading.enumerate())


def test_a_stream_for_which_there_is_no_thread_is_refused_and_the_next_is_watched() -> None:
    watch, stream = StreamWatchdog(), Stream()
    refused = pytest.raises(ResourceExhaustedError, match="able to start threads, got can't start")
    with no_threads(), refused, watch.watching(Stream()):
        pass
    with watch.watching(stream):
        stream.answering = 7
        until(lambda: stream.handed_over == [7])
    until(lambda: not _is_running())
