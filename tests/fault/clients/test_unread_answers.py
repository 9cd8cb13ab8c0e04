"""Responses that are not read: their memory is bounded, reported, and of one session alone."""

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import psutil
import pytest

import xla_client as xc
from tests.e2e.process import ServerProcess, serving
from tests.fault.calls import fetched_run, is_served, upload
from tests.fault.plain import RPCS_BY_NAME, Plain, until
from tests.fault.programs import ONES, double
from tests.fault.raw_peer import HEADERS, RESET, RawPeer, frame
from tests.fault.rounds import rounds
from tests.unit.sessions.sample_runs import argument_of
from xla_client import ops
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.stubs import xla_pb2
from xla_contract.types.literal import Literal
from xla_contract.wire.literals.proto import literal_to_proto
from xla_contract.wire.shape_proto import shape_to_proto

MEBIBYTE = 1 << 20
LIMIT = 4 * MEBIBYTE + 4096
"""Limit of a session in bytes. The description of a value takes some bytes more."""
LARGE = np.arange(MEBIBYTE // 4, dtype=np.float32)
CALLS = 60
FULL = LIMIT // MEBIBYTE
CANCEL = (8).to_bytes(4, "big")
STREAMS = 6
IN_PROGRESS = 100
OPEN = IN_PROGRESS + 1024
"""Calls of a connection, those included whose answers were not read."""


server = serving(
    *("--session-answer-bytes", str(LIMIT), "--max-answer-bytes", str(16 * MEBIBYTE)),
    *("--session-streams", str(STREAMS), "--max-concurrent-calls", str(IN_PROGRESS)),
)


@pytest.fixture
def other(server: ServerProcess) -> Iterator[Plain]:
    """A client of another session, which sees to it that everything is free in the end."""
    client = Plain(server.address)
    before = client.counters()
    yield client
    until(lambda: client.counters() == before)
    # Memory is released when grpc has reported the end of a call, which its client may know before.
    until(lambda: client.describe().server_answer_bytes == 0)
    client.end_session()


@pytest.fixture
def client(server: ServerProcess, other: Plain) -> Iterator[Plain]:
    """A well-behaved connection of the peers' session."""
    client = Plain(server.address)
    yield client
    until_held(client, 0)
    client.end_session()


def held(client: Plain) -> int:
    return client.describe().use.answer_bytes


def until_held(client: Plain, byte_size: int) -> None:
    until(lambda: held(client) == byte_size)


def until_received(peer: RawPeer, stream: int, byte_size: int) -> None:
    until(lambda: peer.received[stream] == byte_size)


def transfer(client: Plain, array: Any = LARGE) -> xla_pb2.TransferToClientRequest:
    """A request for a value that is there."""
    literal = literal_to_proto(Literal.from_numpy(array))
    data = client("TransferToServer", xla_pb2.TransferToServerRequest(literal=literal)).data
    return xla_pb2.TransferToClientRequest(data=data)


def refusal(call: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments)
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED, error.details()
    return str(error.details())


def unread(peer: RawPeer, count: int, name: str, request: Any) -> list[int]:
    """Calls that are answered, and not read."""
    streams = [peer.call(name, request) for _ in range(count)]
    for stream in streams:
        peer.wait_for(HEADERS, stream)
    return streams


def resident_bytes(server: ServerProcess) -> int:
    return int(psutil.Process(server.process.pid).memory_info().rss)


def test_a_session_has_so_many_and_its_other_clients_are_notified(server, client, other):
    request, own = transfer(client), transfer(other)
    is_served(client)
    taken = resident_bytes(server)
    for _ in rounds():
        with RawPeer(server.address, token=client.token) as peer:
            unread(peer, CALLS, "TransferToClient", request)
            assert not peer.received
            use = client.describe().use.answer_bytes
            assert LIMIT - MEBIBYTE < use <= LIMIT
            # grpc keeps the bytes it was given beside those it sends.
            assert resident_bytes(server) - taken < 2 * LIMIT + 16 * MEBIBYTE
            reported = refusal(client, "TransferToClient", request)
            assert f"may take {LIMIT} bytes" in reported
            assert f"got {MEBIBYTE} bytes more with {use} there" in reported
            # Others read what they like, and small answers are none of it.
            assert len(other("TransferToClient", own).literal.f32s) == LARGE.size
            is_served(other)
            client.describe()
        until_held(client, 0)
        assert len(client("TransferToClient", request).literal.f32s) == LARGE.size
    client("Unregister", xla_pb2.UnregisterRequest(data=[request.data]))
    other("Unregister", xla_pb2.UnregisterRequest(data=[own.data]))


def test_answers_that_are_read_or_cancelled_release_memory(server, client):
    request = transfer(client)
    for _ in rounds():
        with RawPeer(server.address, token=client.token) as peer:
            streams = unread(peer, FULL, "TransferToClient", request)
            whole = held(client)
            size = whole // FULL
            refusal(client, "TransferToClient", request)
            peer._send(frame(RESET, 0, streams[0], CANCEL))
            until_held(client, whole - size)
            peer.open_window(0, 2 * MEBIBYTE)
            peer.open_window(streams[1], size - 1)
            until_received(peer, streams[1], size - 1)
            assert held(client) == whole - size
            peer.open_window(streams[1], 6)
            until_held(client, whole - 2 * size)
            client("TransferToClient", request)
    client("Unregister", xla_pb2.UnregisterRequest(data=[request.data]))


def test_one_answer_may_be_as_large_as_a_message(server, client):
    request = transfer(client, np.arange(4 * MEBIBYTE, dtype=np.float32))
    with RawPeer(server.address, token=client.token) as peer:
        unread(peer, 2, "TransferToClient", request)
        assert 16 * MEBIBYTE <= held(client) < 17 * MEBIBYTE
        refusal(client, "TransferToClient", request)
    until_held(client, 0)
    client("Unregister", xla_pb2.UnregisterRequest(data=[request.data]))


def test_runs_are_refused_before_they_run(server, client):
    executable, data = client.compile(double()), upload(client)
    run = fetched_run(executable, argument_of(data.handle))
    batch = extension_pb2.RunBatchRequest(runs=[run] * CALLS)
    capacity = LIMIT // ONES.nbytes
    with RawPeer(server.address, token=client.token) as peer:
        unread(peer, capacity, "Run", run)
        keeping = fetched_run(executable, argument_of(data.handle, donate=True))
        keeping.steps[0].output.keep = True
        before = client.describe().use
        assert before.answer_bytes > LIMIT - ONES.nbytes
        reported = refusal(client, "Run", keeping)
        assert f"got {ONES.nbytes} bytes more" in reported
        assert client.describe().use == before
        outcomes = client("RunBatch", batch).outcomes
        assert {outcome.WhichOneof("outcome") for outcome in outcomes} == {"status"}
    until_held(client, 0)
    # A batch is one answer, however large, unless there are others.
    outcomes = client("RunBatch", batch).outcomes
    assert {outcome.WhichOneof("outcome") for outcome in outcomes} == {"response"}
    with RawPeer(server.address, token=client.token) as peer:
        unread(peer, 1, "Run", run)
        outcomes = client("RunBatch", batch).outcomes
        answered = sum(outcome.WhichOneof("outcome") == "response" for outcome in outcomes)
        assert 0 < answered < capacity
        unread(peer, 3, "RunBatch", batch)
        assert held(client) <= LIMIT + CALLS * 4096
    until_held(client, 0)
    client("Unregister", xla_pb2.UnregisterRequest(data=[data]))


def test_answers_on_streams_have_memory_until_they_are_sent(server, client):
    request = transfer(client)
    with RawPeer(server.address, token=client.token) as peer:
        stream = peer.call("Converse")
        for number in range(CALLS):
            message = extension_pb2.ConverseRequest(
                id=number,
                method=RPCS_BY_NAME["TransferToClient"].path[1:],
                request=request.SerializeToString(),
            )
            peer.send_message(stream, message, half_close=False)
        until(lambda: held(client) > LIMIT - MEBIBYTE)
        refusal(client, "TransferToClient", request)
        assert held(client) <= LIMIT
        peer.open_window(0, CALLS * MEBIBYTE)
        peer.open_window(stream, CALLS * MEBIBYTE)
        until_held(client, 0)
        until(lambda: peer.received[stream] > FULL * MEBIBYTE)
    client("TransferToClient", request)
    client("Unregister", xla_pb2.UnregisterRequest(data=[request.data]))


def test_a_connection_has_so_many_calls_open(server, client, other):
    describe = extension_pb2.DescribeSessionRequest()
    with RawPeer(server.address, token=client.token) as peer:
        for opened in range(0, OPEN, IN_PROGRESS // 2):
            count = min(IN_PROGRESS // 2, OPEN - opened)
            unread(peer, count, "DescribeSession", describe)
            other.describe()
        peer.wait_for(RESET, peer.call("DescribeSession", describe))
        is_served(client)
        is_served(other)


def fed(count: int, size: int) -> xc.Computation:
    """Sends arrays of `size` elements to outfeed, of zeros, ones and so on."""
    builder = xc.Builder("fed")
    token = builder.create_token()
    for number in range(count):
        value = ops.broadcast(builder.constant(np.float32(number)), [size])
        token = ops.outfeed_with_token(value, token)
    return builder.build(builder.constant(np.float32(0)))


def outfeed(client: Plain, executable: Any) -> None:
    output = client("Execute", xla_pb2.ExecuteRequest(handle=executable)).output
    client("Unregister", xla_pb2.UnregisterRequest(data=[output]))


def test_an_item_of_outfeed_that_is_refused_stays(server, client):
    request = transfer(client)
    outfeed(client, client.compile(fed(3, LARGE.size)))
    shape = shape_to_proto(xc.Shape.parse(f"f32[{LARGE.size}]{{0}}"))
    take = xla_pb2.TransferFromOutfeedRequest(shape_with_layout=shape)
    assert client("TransferFromOutfeed", take).literal.f32s[0] == 0
    with RawPeer(server.address, token=client.token) as peer:
        unread(peer, FULL, "TransferToClient", request)
        for _ in range(3):
            refusal(client, "TransferFromOutfeed", take)
    until_held(client, 0)
    assert [client("TransferFromOutfeed", take).literal.f32s[0] for _ in range(2)] == [1, 2]
    client("Unregister", xla_pb2.UnregisterRequest(data=[request.data]))


def test_a_large_item_on_a_stream_has_memory_until_it_is_sent(server, client):
    request = transfer(client)
    outfeed(client, client.compile(fed(2, 2 * LARGE.size)))
    credit = extension_pb2.Credit(items=9, bytes=1 << 40)
    start = extension_pb2.OutfeedRequest(start=extension_pb2.OutfeedStart(credit=credit))
    with RawPeer(server.address, token=client.token) as peer:
        stream = peer.call("Outfeed", start, half_close=False)
        # Enough for the first message, and a part of the next.
        peer.open_window(stream, 1000)
        until(lambda: held(client) == 2 * MEBIBYTE)
        unread(peer, FULL, "TransferToClient", request)
        assert held(client) <= LIMIT
        # Another stream replaces this one, whose message is still on its way.
        beside = client.stream("Outfeed")
        beside.send(start)
        assert beside.receive().WhichOneof("part") == "started"
        with pytest.raises(grpc.RpcError, match="answers of a session"):
            beside.receive()
    until_held(client, 0)
    again = client.stream("Outfeed")
    again.send(start)
    assert again.receive().WhichOneof("part") == "started"
    assert [again.receive().items.items[0].sequence for _ in range(2)] == [1, 2]
    again.call.cancel()
    client("ResetDevice", xla_pb2.ResetDeviceRequest())
    client("Unregister", xla_pb2.UnregisterRequest(data=[request.data]))


def test_an_infeed_whose_reports_are_not_read_keeps_its_slot(server, client):
    """There are no more threads for reports than there are streams."""
    start = extension_pb2.InfeedRequest(start=extension_pb2.InfeedStart())
    flush = extension_pb2.InfeedRequest(flush=extension_pb2.InfeedFlush())
    first = 5 + len(started(client, start).SerializeToString())
    with RawPeer(server.address, token=client.token) as peer:
        for _ in range(STREAMS):
            stream = peer.call("Infeed", start, half_close=False)
            peer.send_message(stream, flush, half_close=False)
            # A part of the report has been sent, whose thread waits with the rest.
            peer.open_window(stream, first + 1)
            until_received(peer, stream, first + 1)
            # This ends the stream.
            peer.send_message(stream, extension_pb2.InfeedRequest(), half_close=False)
        with pytest.raises(grpc.RpcError, match=f"may have {STREAMS} streams"):
            started(client, start)
    until(lambda: is_free(client, start))


def started(client: Plain, start: Any) -> Any:
    """The first message of a stream that ends at once."""
    stream = client.stream("Infeed")
    stream.send(start)
    stream.half_close()
    return stream.receive()


def is_free(client: Plain, start: Any) -> bool:
    try:
        started(client, start)
    except grpc.RpcError:
        return False
    return True
