"""The connection of a call, over real ones of grpc's."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.e2e.fixed_port import FixedPort, free_port
from tests.fault.plain import until
from xla_server.rpc import grpc_internals
from xla_server.rpc.peers.connections import Connections, connected_server

_OWN = [("grpc.use_local_subchannel_pool", 1)]


class Listening:
    """A server whose one rpc says what connection each call came over."""

    def __init__(self, address: str) -> None:
        self.waits, self.released = threading.Event(), threading.Event()
        self.server, self.connections = connected_server(
            lambda: grpc.server(futures.ThreadPoolExecutor(4))
        )
        handler = grpc.unary_unary_rpc_method_handler(self._answer)
        generic = grpc.method_handlers_generic_handler("a", {"b": handler})
        self.server.add_generic_rpc_handlers((generic,))
        self.port = self.server.add_insecure_port(address)
        self.server.start()

    def _answer(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        if request:
            self.waits.set()
            self.released.wait(100)
        return f"{self.connections.of(context.peer())} {context.peer()}".encode()


@pytest.fixture
def listen() -> Iterator[Callable[[str], Listening]]:
    made: list[Listening] = []

    def listening(address: str) -> Listening:
        made.append(Listening(address))
        return made[-1]

    yield listening
    for each in made:
        each.released.set()
        each.server.stop(None).wait()


def ask(channel: grpc.Channel, request: bytes = b"") -> tuple[str, str]:
    name, _, peer = channel.unary_unary("/a/b")(request, timeout=20).decode().partition(" ")
    return name, peer


@pytest.mark.parametrize("host", ["127.0.0.1", "[::]", "[::1]"])
def test_each_connection_has_a_name_of_its_own_until_it_closes(
    listen: Callable[[str], Listening], host: str
) -> None:
    listening = listen(f"{host}:0")
    target = f"{host.replace('[::]', '127.0.0.1')}:{listening.port}"
    names = set()
    for _ in range(3):
        with grpc.insecure_channel(target, options=_OWN) as channel:
            name, peer = ask(channel)
            assert name
            assert ask(channel) == (name, peer)
            live = listening.connections.live()
            assert name in live
            assert peer in live
        names.add(name)
        until(lambda name=name: name not in listening.connections.live())
    assert len(names) == 3


def test_many_that_come_at_once_are_all_distinguished(listen: Callable[[str], Listening]) -> None:
    listening = listen("127.0.0.1:0")
    target = f"127.0.0.1:{listening.port}"
    with contextlib.ExitStack() as stack:
        channels = [
            stack.enter_context(grpc.insecure_channel(target, options=_OWN)) for _ in range(60)
        ]
        requested = [channel.unary_unary("/a/b").future(b"", timeout=20) for channel in channels]
        names = [future.result().split()[0] for future in requested]
        assert len(set(names)) == 60
        assert [ask(channel)[0].encode() for channel in channels] == names


def test_clients_of_a_unix_socket_are_not_distinguished(
    listen: Callable[[str], Listening], tmp_path: Path
) -> None:
    path = f"unix:{tmp_path / 'socket'}"
    listening = listen(path)
    with grpc.insecure_channel(path, options=_OWN) as channel:
        name, peer = ask(channel)
        assert name == ""
        # But they are there until the last leaves.
        assert peer in listening.connections.live()
    until(lambda: peer not in listening.connections.live())


def test_no_connection_is_reported_while_two_have_the_address(
    listen: Callable[[str], Listening],
) -> None:
    listening = listen("0.0.0.0:0")
    local = ("127.0.0.1", free_port())
    one = FixedPort("127.0.0.1", listening.port, local)
    with grpc.insecure_channel(one.address, options=_OWN) as mine:
        first, peer = ask(mine)
        assert first
        another = FixedPort("127.0.0.2", listening.port, local)
        with grpc.insecure_channel(another.address, options=_OWN) as other:
            assert ask(other) == ("", peer)
            assert ask(mine) == ("", peer)
        another.close()
        until(lambda: ask(mine) == (first, peer))
    one.close()


def test_a_call_whose_client_has_gone_is_not_taken_for_one_of_a_later_client(
    listen: Callable[[str], Listening],
) -> None:
    listening = listen("0.0.0.0:0")
    with grpc.insecure_channel(f"127.0.0.1:{listening.port}", options=_OWN) as channel:
        name, peer = ask(channel)
        waiting = channel.unary_unary("/a/b").future(b"waits")
        assert listening.waits.wait(100)
    # Its socket is closed, and its call is there: so is its name, beside that of another.
    assert name in listening.connections.live()
    assert listening.connections.of(peer) == name
    listening.released.set()
    until(lambda: name not in listening.connections.live())
    assert waiting.done()


class _Listed:
    """A Channelz that lists what a test says."""

    def __init__(self) -> None:
        self.sockets: dict[int, str] = {}
        self.requested: list[int] = []

    def channelz_get_server_sockets(self, server: int, start: int, most: int) -> bytes:
        self.requested.append(start)
        found = sorted(each for each in self.sockets if each >= start)
        page = [
            {"name": f"chttp2 {self.sockets[number]}", "socketId": str(number)}
            for number in found[:2]
        ]
        return json.dumps({"end": len(found) <= 2, "socketRef": page}).encode()


@pytest.mark.parametrize("is_incremental", [True, False])
def test_lists_come_in_parts_and_only_what_is_new_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, is_incremental: bool
) -> None:
    listed = _Listed()
    monkeypatch.setattr(grpc_internals, "channelz", lambda: listed)
    found = Connections([1], is_incremental=is_incremental)
    listed.sockets = {number: f"ipv4:1.2.3.4:{number}" for number in range(10, 15)}
    assert found.of("ipv4:1.2.3.4:14") == "14"
    assert listed.requested == [0, 12, 14]
    listed.requested.clear()
    # A number below those seen: only where numbers may come in any order is it looked for.
    listed.sockets |= {9: "ipv4:1.2.3.4:14"}
    assert found.of("ipv4:1.2.3.4:14") == ("14" if is_incremental else "")
    assert listed.requested[0] == (15 if is_incremental else 0)


def test_where_grpc_lists_nothing_nothing_is_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(grpc_internals, "channelz", lambda: None)
    made: list[Any] = []
    _, found = connected_server(lambda: made.append(1))  # type: ignore[arg-type, return-value]
    assert made
    assert found.of("ipv4:127.0.0.1:1") == ""
    assert "calls must name a session" in caplog.text


def test_new_connections_are_asked_for_by_number_with_this_grpc(
    listen: Callable[[str], Listening],
) -> None:
    assert listen("127.0.0.1:0").connections._is_incremental
