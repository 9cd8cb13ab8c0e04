"""The order in which calls begin, over a server whose event loop is held while they arrive."""

import contextlib
import socket
import threading
import time
import types
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from tests.fault.plain import until
from tests.fault.raw_peer import (
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    SETTINGS,
    RawPeer,
    frame,
    header_block,
)
from xla_server.rpc.grpc_internals import known_server
from xla_server.rpc.threads import event_loop
from xla_server.rpc.threads.event_loop import MAX_HEADERS, EventLoop, start_server

HOLD, NOTE = "/s/Hold", "/s/Note"
GREEDY = 60
"""Calls of the client that sends many at once."""


class Service(grpc.GenericRpcHandler):
    """A server that notes the header `name` of calls in the order in which they begin."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.is_held, self.may_go_on = threading.Event(), threading.Event()
        self.server: Any = grpc.server(ThreadPoolExecutor(1), handlers=[self])
        port = self.server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        self.loop = EventLoop(known_server(), self.server._state)
        self.loop.start()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Note a call; called in the event loop."""
        if handler_call_details.method == HOLD:
            self.is_held.set()
            self.may_go_on.wait(100)
        metadata: Any = handler_call_details.invocation_metadata
        self.begun.extend(value for key, value in metadata if key == "name")
        return grpc.unary_unary_rpc_method_handler(lambda request, _: request)


@pytest.fixture
def service() -> Iterator[Service]:
    running = Service()
    yield running
    running.may_go_on.set()
    assert running.server.stop(0).wait(100)


@contextlib.contextmanager
def held(service: Service) -> Iterator[None]:
    """Hold the event loop as long as the block."""
    with RawPeer(service.address) as holder:
        holder.call(HOLD)
        assert service.is_held.wait(100)
        yield
        service.may_go_on.set()


def peer(service: Service, name: str, *metadata: tuple[str, str]) -> RawPeer:
    return RawPeer(service.address, window=1 << 16, metadata=[("name", name), *metadata])


def wait_until_read(*peers: RawPeer) -> None:
    """Wait until the server's core has read all that peers have sent."""
    for each in peers:
        each.ping()
        each.wait_for(PING, 0)


@pytest.mark.parametrize("seconds", [60.0, 0.0], ids=["turns", "bounded"])
def test_connections_take_turns_whichever_sent_more_calls_before(
    service: Service, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(event_loop, "_TAKE_OVER_SECONDS", seconds)
    with peer(service, "greedy") as greedy, peer(service, "modest") as modest:
        with held(service):
            for _ in range(GREEDY):
                greedy.call(NOTE)
            wait_until_read(greedy)
            for _ in range(3):
                modest.call(NOTE)
            wait_until_read(modest)
        until(lambda: len(service.begun) == GREEDY + 3)
    if seconds:
        assert service.begun[:6] == ["greedy", "modest"] * 3
    else:
        # One call begins for each that is taken over: taking over holds up no call for long.
        assert service.begun == ["greedy"] * GREEDY + ["modest"] * 3


def test_a_call_whose_deadline_passes_before_its_turn_does_not_begin(service: Service) -> None:
    with peer(service, "late", ("grpc-timeout", "1m")) as late, peer(service, "next") as following:
        with held(service):
            stream = late.call(NOTE)
            late.wait_for_end(stream)
            following.call(NOTE)
            wait_until_read(following)
        until(lambda: "next" in service.begun)
    assert service.begun == ["next"]
    assert service.loop.dropped == 1


def test_no_deadline_passes_because_the_clock_is_set_meanwhile(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def now() -> float:
        """The system's clock, which is set an hour ahead once a call has begun."""
        return time.time() + (3600 if service.begun else 0)

    clock = types.SimpleNamespace(time=now, monotonic=time.monotonic)
    monkeypatch.setattr(event_loop, "time", clock)
    monkeypatch.setattr(event_loop, "_TAKE_OVER_SECONDS", 60.0)
    with peer(service, "patient", ("grpc-timeout", "60S")) as patient:
        with held(service):
            patient.call(NOTE)
            patient.call(NOTE)
            wait_until_read(patient)
        until(lambda: len(service.begun) + service.loop.dropped == 2)
    assert service.begun == ["patient"] * 2


def test_a_call_with_more_headers_than_the_server_announces_does_not_begin(
    service: Service,
) -> None:
    many = [("a", "b")] * (MAX_HEADERS + 1)
    block = header_block(NOTE, [("name", "many"), *many])
    host, _, port = service.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        # It acknowledges no settings, so grpc knows of no limit that it keeps to.
        flags = END_HEADERS | END_STREAM
        connection.sendall(PREFACE + frame(SETTINGS) + frame(HEADERS, flags, 1, block))
        until(lambda: service.loop.dropped == 1)
        with peer(service, "few") as few:
            few.call(NOTE)
            until(lambda: "few" in service.begun)
    assert service.begun == ["few"]


def test_a_server_stops_with_calls_that_wait_for_their_turns(service: Service) -> None:
    with peer(service, "waiting") as waiting, held(service):
        for _ in range(GREEDY):
            waiting.call(NOTE)
        wait_until_read(waiting)
        # grpc holds its lock on the server while a call begins.
        stopping = ThreadPoolExecutor(1).submit(service.server.stop, 0)
        service.may_go_on.set()
        assert stopping.result(100).wait(100)


def test_calls_that_have_begun_are_counted_until_they_end(service: Service) -> None:
    service.server._state.maximum_concurrent_rpcs = 1
    with grpc.insecure_channel(service.address) as channel, peer(service, "first") as first:
        # Its message is not there yet.
        first.call(NOTE)
        until(lambda: service.begun == ["first"])
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(NOTE)(b"", timeout=20)
        error: Any = caught.value
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        first.close()
        until(lambda: not service.loop._active)
        assert channel.unary_unary(NOTE)(b"request", timeout=20) == b"request"


def test_an_unknown_grpc_serves_calls_in_its_own_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop, "known_server", lambda: None)
    handler = grpc.unary_unary_rpc_method_handler(lambda request, _: request)
    rows = grpc.method_handlers_generic_handler("s", {"Note": handler})
    server = grpc.server(ThreadPoolExecutor(1), handlers=[rows])
    port = server.add_insecure_port("127.0.0.1:0")
    start_server(server)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        assert channel.unary_unary(NOTE)(b"request", timeout=20) == b"request"
    server.stop(None)
