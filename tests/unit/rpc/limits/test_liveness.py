import threading
from typing import Any

import pytest

from tests.fault.plain import until
from tests.unit.sessions.engines import shared_resources
from xla_server.rpc.limits.liveness import SessionReaper
from xla_server.rpc.peers.connections import Connections
from xla_server.sessions.session_registry import SessionRegistry


def test_sessions_are_looked_at_from_time_to_time() -> None:
    engine = shared_resources(100)
    sessions = SessionRegistry(engine, grace_seconds=0)
    session = sessions.open()
    presence = SessionReaper(sessions, Connections())
    until(lambda: session.service.is_closed)
    presence.close()


def test_a_round_that_fails_is_not_the_last(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sessions = SessionRegistry(shared_resources(100), grace_seconds=0)
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
