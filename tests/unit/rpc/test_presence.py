import contextlib
import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.fault.plain import until
from xla_server.backends.interpreter import Interpreter
from xla_server.rpc.presence import Connections, Presence
from xla_server.sessions.engine import Engine
from xla_server.sessions.records import Limits
from xla_server.sessions.registry import SessionRegistry


@contextlib.contextmanager
def listening(address: str) -> Iterator[tuple[int, list[str]]]:
    """A server that notes who calls."""
    peers: list[str] = []

    def note(_: bytes, context: grpc.ServicerContext) -> bytes:
        peers.append(context.peer())
        return b""

    server = grpc.server(futures.ThreadPoolExecutor(1))
    handler = grpc.unary_unary_rpc_method_handler(note)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("a", {"b": handler}),))
    port = server.add_insecure_port(address)
    server.start()
    yield port, peers
    server.stop(None).wait()


def assert_noticed(target: str, peers: list[str]) -> None:
    own = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(target, options=own) as channel:
        channel.unary_unary("/a/b")(b"")
        (peer,) = peers
        assert Connections()(peer)
    until(lambda: not Connections()(peer))


@pytest.mark.parametrize("host", ["127.0.0.1", "[::]", "[::1]"])
def test_a_connection_is_there_until_it_closes(host: str) -> None:
    with listening(f"{host}:0") as (port, peers):
        assert_noticed(f"{host.replace('[::]', '127.0.0.1')}:{port}", peers)


def test_clients_of_a_unix_socket_are_there_until_the_last_leaves(tmp_path: Path) -> None:
    path = f"unix:{tmp_path / 'socket'}"
    with listening(path) as (_, peers):
        assert_noticed(path, peers)


def test_what_cannot_be_told_is_there() -> None:
    assert Connections()("vsock:1:2")


def test_sessions_are_looked_at_from_time_to_time() -> None:
    engine = Engine(Interpreter(), Limits(max_device_bytes=100))
    sessions = SessionRegistry(engine, grace_seconds=0)
    session = sessions.open()
    presence = Presence(sessions)
    until(lambda: session.service.is_closed)
    presence.close()


def test_a_round_that_fails_is_not_the_last(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sessions = SessionRegistry(Engine(Interpreter(), Limits(max_device_bytes=100)), grace_seconds=0)
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
    presence = Presence(sessions)
    assert has_gone_on.wait(10)
    presence.close()
    assert "looking for sessions that ended failed" in caplog.text
