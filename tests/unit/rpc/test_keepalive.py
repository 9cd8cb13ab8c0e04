"""Detection of clients that have vanished."""

from typing import Any

import pytest

from tests.unit.sessions.engines import shared_resources
from xla_server.rpc import server
from xla_server.rpc.server import RpcOptions, RpcServer
from xla_server.sessions.session_registry import SessionRegistry


class _AskedError(Exception):
    pass


def test_silent_connections_are_asked_whether_they_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requested: dict[str, Any] = {}

    def make(*_: object, options: list[tuple[str, Any]], **__: object) -> None:
        requested.update(options)
        raise _AskedError

    monkeypatch.setattr(server.grpc, "server", make)
    sessions = SessionRegistry(shared_resources())
    with pytest.raises(_AskedError):
        RpcServer(sessions, RpcOptions(["127.0.0.1:0"]))
    assert requested["grpc.keepalive_time_ms"] == 30_000
    assert requested["grpc.keepalive_timeout_ms"] == 10_000
    # While a ping of any kind is not answered no other is sent, so each must end the connection.
    assert requested["grpc.http2.ping_timeout_ms"] == 40_000
    assert requested["grpc.http2.max_pings_without_data"] == 0
    # Clients ask each 30 s, and what they ask may come when their call has ended.
    assert requested["grpc.keepalive_permit_without_calls"] == 1
    assert requested["grpc.http2.min_ping_interval_without_data_ms"] < 30_000
