import threading
from typing import Any

import pytest

from tests.fault.plain import until
from xla_server.backends.interpreter import Interpreter
from xla_server.rpc.limits.liveness import SessionReaper
from xla_server.rpc.peers.connections import Connections
from xla_server.sessions.limits.server_limits import Limits
from xla_server.sessions.session_registry import SessionRegistry
from xla_server.sessions.shared_resources import SharedResources


def test_sessions_are_looked_at_from_time_to_time() -> None:
    engine = SharedResources(Interpreter(), Limits(max_device_bytes=100))
    sessions = SessionRegistry(engine, grace_seconds=0)
    session = sessions.open()
    presence = SessionReaper(sessions, Connections())
    until(lambda: session.service.is_closed)
    presence.close()


def test_a_round_that_fails_is_not_the_last(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sessions = SessionRegistry(
        SharedResources(Interpreter(), Limits(max_device_bytes=100)), grace_seconds=0
    )
    expire, rounds = sessions.expire, 0
    has_gone_on = threading.Event()

    def failing(is_connected: Any) -> int:
        nonlocal rounds
        rounds += 1
        if rounds == 1:
            raise OSError("too many open files")
        has_gone_on.set()
        return expire(is_connected)

    monkeypatch.setattr(sessions, "expire", failing)
    presence = SessionReaper(sessions, Connections())
    assert has_gone_on.wait(100)
    presence.close()
    assert "looking for sessions that ended failed" in caplog.text
