"""Signals that cut a drain short: those that come after the log says that it drains."""

import logging
import signal
import threading

import pytest

from tests.unit.threads import no_threads
from xla_server.app.serving import lifecycle
from xla_server.app.serving.wakeup import TIMED_OUT, Events


class Server:
    """A server whose drain goes on until it is cancelled or the test lets it end."""

    def __init__(self) -> None:
        self.cancelled = 0
        self.may_end = threading.Event()

    def drain(self, grace_seconds: float) -> bool:
        assert self.may_end.wait(60)
        return True

    def cancel(self) -> None:
        self.cancelled += 1
        self.may_end.set()


class Scripted(Events):
    """Events that come in the order of a list; behind it, the drain may end."""

    def __init__(self, words: list[int], server: Server) -> None:
        super().__init__([])
        self._words = words
        self._server = server

    def get(self, timeout: float | None = None) -> int:
        if self._words:
            return self._words.pop(0)
        self._server.may_end.set()
        return super().get(timeout)


def drained(words: list[int], caplog: pytest.LogCaptureFixture) -> Server:
    server = Server()
    caplog.set_level(logging.INFO, lifecycle.__name__)
    with Scripted(words, server) as events:
        assert lifecycle._drain(server, 100, "SIGTERM", events)  # type: ignore[arg-type]
    assert [each.message for each in caplog.records if "draining" in each.message] == [
        "draining after SIGTERM"
    ]
    return server


def test_signals_that_come_together_count_as_one(caplog: pytest.LogCaptureFixture) -> None:
    words = [signal.SIGTERM, signal.SIGINT, TIMED_OUT]
    assert drained(words, caplog).cancelled == 0


def test_a_signal_after_that_cancels(caplog: pytest.LogCaptureFixture) -> None:
    words = [signal.SIGTERM, TIMED_OUT, signal.SIGTERM]
    assert drained(words, caplog).cancelled == 1


def test_a_drain_that_ends_before_is_reported_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert drained([], caplog).cancelled == 0


def test_a_server_drains_where_the_system_refuses_threads() -> None:
    server = Server()
    server.may_end.set()
    with Events([]) as events, no_threads():
        assert lifecycle._drain(server, 100, "SIGTERM", events)  # type: ignore[arg-type]
    assert server.cancelled == 0
