"""Calls that come while a server drains, as clients see them."""

import contextlib
import logging
import threading
import time
import zlib
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.e2e.feed_programs import COUNT, relay
from tests.fault.plain import RPCS_BY_NAME, Plain, Stream, ends_unavailable, until
from tests.fault.raw_peer import HEADERS, RawPeer
from tests.unit.rpc.calls.context import Context
from tests.unit.sessions.engines import shared_resources
from tests.unit.sessions.sample_runs import (
    ONES,
    PAIR,
    argument_of,
    keep,
    program,
    run_request,
    step,
)
from xla_contract.stubs import xla_extension_pb2, xla_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.proto import literal_to_proto
from xla_contract.wire.shape_proto import shape_to_proto
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.cancellation_set import CancellationSet
from xla_server.rpc.calls import draining as draining_module
from xla_server.rpc.calls.active_calls import ActiveCalls
from xla_server.rpc.calls.draining import DrainController
from xla_server.rpc.peers.connections import Connections
from xla_server.rpc.server import RpcOptions, RpcServer
from xla_server.rpc.threads.pools import Pool, Pools, PoolSizes
from xla_server.sessions.session_registry import SessionRegistry

GRACE = 300
"""Seconds that what is not reported at once waits for: longer than a test may take."""
DESCRIBE = xla_extension_pb2.DescribeSessionRequest()
DATA = bytes(range(8))


class Server:
    """A server in this process, which drains on request."""

    def __init__(self) -> None:
        sessions = SessionRegistry(shared_resources(1 << 26))
        self.rpc = RpcServer(sessions, RpcOptions(listen=("127.0.0.1:0",)))
        self.rpc.start()
        self.address = self.rpc.address
        self._outcomes: list[bool] = []
        self._thread = threading.Thread(target=self._drain)

    def _drain(self) -> None:
        self._outcomes.append(self.rpc.drain(GRACE))

    def drain(self) -> None:
        """Begin to drain; calls are refused when this returns."""
        self._thread.start()
        until(lambda: self.rpc._calls.are_refused)

    def has_drained(self) -> bool:
        """Return whether all calls ended successfully."""
        self._thread.join(100)
        return self._outcomes == [True]

    def close(self) -> None:
        self.rpc.cancel()
        if self._thread.ident is None:
            self.rpc.drain(0)
        else:
            self._thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.fixture
def client(server: Server) -> Iterator[Plain]:
    connected = Plain(server.address)
    yield connected
    connected.close()


def begin_upload(client: Plain) -> Stream:
    """An upload of which half has arrived."""
    shape = shape_to_proto(Shape.parse("u8[8]").with_default_layout())
    start = xla_extension_pb2.UploadStart(upload_id=b"one", shape=shape)
    upload = client.stream("Upload")
    upload.send(xla_extension_pb2.UploadRequest(start=start), part(0))

    def has_come() -> bool:
        with contextlib.suppress(grpc.RpcError):  # Not even the start has.
            requested = xla_extension_pb2.GetUploadRequest(upload_id=b"one")
            return bool(client("GetUpload", requested).offset == 4)
        return False

    until(has_come)
    return upload


def part(offset: int) -> xla_extension_pb2.UploadRequest:
    chunk = xla_extension_pb2.Chunk(offset=offset, data=DATA[offset : offset + 4])
    if offset:
        chunk.checksum = zlib.crc32(DATA)
    return xla_extension_pb2.UploadRequest(chunk=chunk)


def looks_again() -> None:
    """Wait until the server that drains has looked at what is left, and looked again."""
    looks: list[bool] = []
    is_over = DrainController._is_over

    def look(draining: DrainController) -> bool:
        looks.append(is_over(draining))
        return looks[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DrainController, "_is_over", look)
        until(lambda: len(looks) > 1 or any(looks))
    assert not any(looks)


def controller(calls: ActiveCalls, launched: CancellationSet, pools: Pools) -> DrainController:
    """The drain of a server without sessions."""
    sessions = SessionRegistry(shared_resources(1000))
    return DrainController(calls, launched, pools, sessions, Connections(()))


def launched(client: Plain) -> xla_extension_pb2.LaunchResponse:
    """A launched execution of a pair that has ended."""
    executable, one = client.compile(program(PAIR)), literal_to_proto(Literal.from_numpy(ONES))
    data = client("TransferToServer", xla_pb2.TransferToServerRequest(literal=one)).data
    run = run_request(step(executable.handle, argument_of(data.handle), output=keep()))
    execution = client("Launch", xla_extension_pb2.LaunchRequest(run=run))
    client("Unregister", xla_pb2.UnregisterRequest(data=[data]))
    until(lambda: client.executions() == (0, 0))
    return execution


def is_told_at_once(call: Any) -> None:
    assert "is shutting down" in ends_unavailable(call)


def test_what_comes_is_refused_at_once_and_what_runs_ends_well(
    server: Server, client: Plain
) -> None:
    upload, conversation = begin_upload(client), client.stream("Converse")
    begun = xla_extension_pb2.ConverseRequest(
        id=1, method="xla.XlaExtension/DescribeSession", request=DESCRIBE.SerializeToString()
    )
    conversation.send(begun)
    conversation.receive()
    server.drain()
    is_told_at_once(conversation)
    large = xla_pb2.TransferToServerRequest(
        literal=literal_to_proto(Literal.from_numpy(np.zeros(1 << 20, np.float32)))
    )
    newcomer = Plain(server.address, client.token)
    for each in (client, newcomer) * 5:
        last = server.rpc._calls.refused_at
        is_told_at_once(each.begin("DescribeSession", DESCRIBE))
        assert server.rpc._calls.refused_at > last
        is_told_at_once(each.begin("TransferToServer", large))
        is_told_at_once(each.converse("DescribeSession", DESCRIBE))
        is_told_at_once(each.stream("Outfeed"))
        is_told_at_once(each.stream("Download", xla_extension_pb2.DownloadRequest()))
    newcomer.close()
    with grpc.insecure_channel(server.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=20)
        assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING
        watched = stub.Watch(health_pb2.HealthCheckRequest(), timeout=60)
        assert next(watched).status == health_pb2.HealthCheckResponse.NOT_SERVING
        upload.send(part(4))
        upload.half_close()
        assert upload.result(100).data.handle
        # Health watches and idle connections do not delay the drain.
        assert server.has_drained()
        watched.cancel()


def test_what_has_come_in_part_is_ended_and_not_waited_for(server: Server, client: Plain) -> None:
    names = ("TransferToServer", "DescribeSession", "WaitForExecution", "Download")
    streams = ("Upload", "Converse", "Infeed", "Outfeed")
    stranger = RawPeer(server.address, window=1 << 16)
    with stranger, RawPeer(server.address, window=1 << 16, token=client.token or "") as peer:
        calls = [(each, each.call(name)) for name in names + streams for each in (peer, stranger)]
        # Of a message, but not all.
        for each, stream in calls[::2]:
            each.send_data(stream, b"\0\0\0\0\x09beginning"[:10])
        pools = server.rpc._pools
        # Streams without a token have no thread before their first message.
        until(lambda: len(pools.expected.events) == 2 * len(names) + len(streams))
        until(lambda: len(pools.silences) == len(streams))
        server.drain()
        for each, stream in calls:
            each.wait_for(HEADERS, stream)
            assert b"is shutting down" in each.header_blocks[stream]
        assert server.has_drained()


def test_an_answer_is_waited_for_until_it_was_read(server: Server, client: Plain) -> None:
    with RawPeer(server.address, token=client.token or "") as peer:
        stream = peer.call("DescribeSession", DESCRIBE)
        peer.wait_for(HEADERS, stream)
        server.drain()
        looks_again()
        assert not server._outcomes
        peer.open_window(stream, 1 << 16)
        assert server.has_drained()


def test_who_calls_on_and_on_is_notified_in_each_of_many_drains() -> None:
    """Only these calls are in progress: no drain has a reason to last."""
    ends: list[str] = []
    answered: list[Plain] = []

    def call(client: Plain) -> None:
        while True:
            try:
                client.begin("DescribeSession", DESCRIBE).result()
                answered.append(client)
            except grpc.RpcError as error:
                ends.append(str(error))
                return

    for number in range(20):
        server = Server()
        clients = [Plain(server.address) for _ in range(3)]
        threads = [threading.Thread(target=call, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        so_many = len(answered) + number
        until(lambda so_many=so_many: len(answered) > so_many)
        server.drain()
        for thread in threads:
            thread.join()
        assert server.has_drained()
        for client in clients:
            client.close()
    assert len(ends) == 60
    # A client that is held up for longer than the grace period finds the server gone.
    assert sum("is shutting down" in end for end in ends) > 50, ends


def test_a_second_wish_to_end_is_no_end_of_the_grace_period(
    server: Server, client: Plain, caplog: pytest.LogCaptureFixture
) -> None:
    upload = begin_upload(client)
    with caplog.at_level(logging.WARNING):
        server.drain()
        server.rpc.cancel()
        ends_unavailable(upload)
        assert server.has_drained()
    assert "the grace period is over" not in caplog.text


def test_all_that_is_left_is_waited_for() -> None:
    pools, calls, launched = Pools(PoolSizes(1, 1, 1, 1)), ActiveCalls(), CancellationSet()
    draining, gate, begun = (
        controller(calls, launched, pools),
        threading.Event(),
        threading.Event(),
    )

    def work() -> None:
        begun.set()
        gate.wait(100)

    draining.begin()
    assert draining.wait(0)
    pools.threads[Pool.COMPILE].submit(work)
    assert begun.wait(100)
    assert not draining.wait(0)
    gate.set()
    assert draining.wait(100)

    context: Any = Context()
    call = calls.begin(context)
    assert not draining.wait(0)
    calls.end(call)  # Its answer is on its way.
    assert not draining.wait(0)
    context.end()
    assert draining.wait(100)

    execution = Cancellation()
    launched.add(execution)
    assert not draining.wait(0)
    cut_short = threading.Event()
    cut_short.set()
    assert not draining.wait(GRACE, cut_short)
    launched.discard(execution)
    assert draining.wait(100)
    assert pools.close(20)


def test_what_is_refused_is_no_work_that_is_left() -> None:
    pools, gate = Pools(PoolSizes(1, 1, 1, 1)), threading.Event()
    draining = controller(ActiveCalls(), CancellationSet(), pools)
    draining.begin()
    pools.refusals.submit(gate.wait, 20)
    assert draining.wait(0)
    gate.set()
    assert pools.close(20)


@pytest.mark.parametrize("seconds", [0.0, 0.3, GRACE])
def test_lingering_ends_without_calls_or_soon(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = ActiveCalls()
    draining = controller(calls, CancellationSet(), Pools(PoolSizes(1, 1, 1, 1)))
    started = time.monotonic()
    draining.begin()
    draining.linger(seconds, threading.Event())
    assert time.monotonic() - started >= min(seconds, 0.1)
    started = time.monotonic()
    draining.begin()
    calls.refused_at = started + 2 * GRACE  # A client calls on and on.
    draining.linger(seconds, threading.Event())
    assert time.monotonic() - started >= min(seconds, 1)
    monkeypatch.setattr(draining_module, "_LINGER_SECONDS", GRACE)
    calls.refused_at = time.monotonic() + 2 * GRACE
    is_cancelled = threading.Event()
    is_cancelled.set()
    draining._began_at = time.monotonic()
    draining.linger(seconds, is_cancelled)


def feed(client: Plain, name: str, **start: Any) -> Stream:
    """Open a stream of a feed."""
    stream = client.stream(name)
    stream.send(RPCS_BY_NAME[name].request(start=start))
    assert stream.receive().WhichOneof("part") == "started"
    return stream


def infed(sequence: int) -> xla_extension_pb2.InfeedRequest:
    shape = shape_to_proto(COUNT.with_default_layout())
    value = xla_extension_pb2.Value(shape=shape, data=sequence.to_bytes(4, "little"))
    item = xla_extension_pb2.FeedItem(sequence=sequence, value=value)
    return xla_extension_pb2.InfeedRequest(items=xla_extension_pb2.FeedItems(items=[item]))


def test_feeds_that_no_program_is_there_for_are_not_waited_for(
    server: Server, client: Plain
) -> None:
    infeed, outfeed = feed(client, "Infeed"), feed(client, "Outfeed")
    infeed.send(infed(1))
    server.drain()
    for stream in (infeed, outfeed):
        is_told_at_once(stream)
    assert server.has_drained()


@pytest.mark.parametrize("begun_by", ["Execute", "Launch"])
def test_feeds_go_on_until_programs_end_and_what_they_wrote_is_taken(
    server: Server, client: Plain, begun_by: str
) -> None:
    infeed = feed(client, "Infeed")
    outfeed = feed(client, "Outfeed", credit=xla_extension_pb2.Credit(items=2, bytes=1000))
    executable = client.compile(relay(2))
    if begun_by == "Launch":
        client(begun_by, xla_extension_pb2.LaunchRequest(run=run_request(step(executable.handle))))
    else:
        running = client.begin(begun_by, xla_pb2.ExecuteRequest(handle=executable))
        until(lambda: client.executions()[0] == 1)
    server.drain()
    for sequence in (1, 2):
        looks_again()
        infeed.send(infed(sequence))
        [item] = outfeed.receive().items.items
        assert item.sequence == sequence
        assert int.from_bytes(item.value.data, "little") == sequence
    if begun_by == "Execute":
        running.result(100)
    looks_again()
    assert outfeed.call.is_active()
    outfeed.send(
        xla_extension_pb2.OutfeedRequest(progress=xla_extension_pb2.OutfeedProgress(acknowledged=2))
    )
    for stream in (infeed, outfeed):
        is_told_at_once(stream)
    assert server.has_drained()


def test_results_of_launched_executions_are_waited_for_until_they_were_fetched(
    server: Server, client: Plain
) -> None:
    """Each element counts once the tuple was taken apart; its session alone is served."""
    execution, other = launched(client), client.also()
    [pair] = execution.outputs[0].outputs
    conversation = client.stream("Converse")
    server.drain()
    is_told_at_once(conversation)
    waiting = xla_pb2.WaitForExecutionRequest(execution=execution.execution)
    assert client.begin("WaitForExecution", waiting).result().output == pair
    parts = client.begin("DeconstructTuple", xla_pb2.DeconstructTupleRequest(tuple_handle=pair))
    first, second = parts.result().element_handles
    download = client.stream("Download", xla_extension_pb2.DownloadRequest(data=first))
    assert np.frombuffer(download.receive().chunk.data, np.float32).tolist() == ONES.tolist()
    looks_again()
    assert not server._outcomes
    for each, name, request in (
        (client, "Launch", xla_extension_pb2.LaunchRequest()),
        (client, "TransferToServer", xla_pb2.TransferToServerRequest()),
        (other, "TransferToClient", xla_pb2.TransferToClientRequest(data=second)),
    ):
        is_told_at_once(each.begin(name, request))
    fetched = client.begin("TransferToClient", xla_pb2.TransferToClientRequest(data=second))
    assert fetched.result().literal.f32s == [2] * 4
    assert server.has_drained()


@pytest.mark.parametrize("name", ["Unregister", "CloseSession"])
def test_results_that_are_freed_are_not_waited_for(
    server: Server, client: Plain, name: str
) -> None:
    outputs = launched(client).outputs[0].outputs
    server.drain()
    looks_again()
    assert not server._outcomes
    requests = {
        "Unregister": xla_pb2.UnregisterRequest(data=outputs),
        "CloseSession": xla_extension_pb2.CloseSessionRequest(),
    }
    client.begin(name, requests[name]).result()
    assert server.has_drained()


def test_the_error_of_a_launched_execution_is_a_result(server: Server, client: Plain) -> None:
    executable = client.compile(relay(1))
    run = run_request(step(executable.handle, output=keep()))
    execution = client("Launch", xla_extension_pb2.LaunchRequest(run=run)).execution
    until(lambda: client.executions()[0] == 1)
    client("CancelExecution", xla_extension_pb2.CancelExecutionRequest(execution=execution))
    until(lambda: client.executions() == (0, 0))
    server.drain()
    looks_again()
    waiting = client.begin("WaitForExecution", xla_pb2.WaitForExecutionRequest(execution=execution))
    assert waiting.exception().code() is grpc.StatusCode.CANCELLED
    assert server.has_drained()


def test_a_client_that_has_gone_is_not_waited_for(
    server: Server, client: Plain, caplog: pytest.LogCaptureFixture
) -> None:
    launched(client)
    client.close()
    with caplog.at_level(logging.WARNING):
        server.drain()
        assert server.has_drained()
    assert "1 results of launched executions were not fetched: 1 of pair" in caplog.text


def test_what_is_not_fetched_in_time_is_refused_and_logged_by_program(
    server: Server, client: Plain, caplog: pytest.LogCaptureFixture
) -> None:
    execution = launched(client)
    with caplog.at_level(logging.WARNING):
        server.drain()
        looks_again()
        server.rpc._draining.end_results()
        waiting = xla_pb2.WaitForExecutionRequest(execution=execution.execution)
        is_told_at_once(client.begin("WaitForExecution", waiting))
        assert server.has_drained()
    assert "1 results of launched executions were not fetched: 1 of pair" in caplog.text
    assert "the grace period is over" not in caplog.text


def test_clients_that_may_be_there_are_waited_for() -> None:
    """One without a connection's name uses a unix socket."""
    draining = controller(ActiveCalls(), CancellationSet(), Pools(PoolSizes(1, 1, 1, 1)))
    session = draining._sessions.open()
    session.service.data.unfetched[1] = "program"
    draining.begin()
    assert not draining.wait(0)
    session.kept_by = "a connection that ended"
    assert draining.wait(0)
    with draining._sessions.attached(session):
        assert not draining.wait(0)
    assert not session.kept_by
    assert draining.wait(0)
