"""Messages on streams that do not end: what has come of them is let go of when memory is short."""

import collections
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.message import Message

import xla_client as xc
from tests.e2e.feed_programs import COUNT, relay
from tests.e2e.process import ServerProcess, serving
from tests.fault.calls import is_served
from tests.fault.clients.conftest import LIMIT, MEBIBYTE, ended, resident_bytes, send_to_all
from tests.fault.plain import RPCS_BY_NAME, Plain, until
from tests.fault.programs import numbers
from tests.fault.raw_peer import DATA, RawPeer
from tests.fault.rounds import rounds
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.stubs import xla_pb2
from xla_contract.types.literal import Literal
from xla_contract.wire.literals.proto import literal_to_proto
from xla_contract.wire.shape_proto import shape_to_proto

PART = 64 * MEBIBYTE
"""Size of the part of each message: one fits, three do not."""
SMALL_PART = 24 * MEBIBYTE
"""Size of the part of each of four messages, which fit together."""
MESSAGE = b"\0" + (PART + MEBIBYTE).to_bytes(4, "big") + bytes(PART)
UNAVAILABLE = b"grpc-status\x0214"
UPLOAD_IDS = (b"first", b"second")


def message(request: Message) -> bytes:
    """A message as it stands on a stream."""
    data = request.SerializeToString()
    return b"\0" + len(data).to_bytes(4, "big") + data


def begin_upload(peer: RawPeer, upload_id: bytes) -> tuple[RawPeer, int]:
    """An upload whose start has been sent."""
    start = extension_pb2.UploadStart(
        upload_id=upload_id, shape=shape_to_proto(xc.Shape.parse("u8[1048576]{0}"))
    )
    stream = peer.call("Upload")
    assert peer.send_as_allowed(stream, message(extension_pb2.UploadRequest(start=start)))
    return peer, stream


def question(name: str, request: Message) -> extension_pb2.ConverseRequest:
    path, data = RPCS_BY_NAME[name].path[1:], request.SerializeToString()
    return extension_pb2.ConverseRequest(id=1, method=path, request=data)


def test_large_messages_that_do_not_end_are_let_go_of_when_memory_is_short(server, client):
    bystander = Plain(server.address)
    silent = bystander.converse("DescribeSession", extension_pb2.DescribeSessionRequest())
    assert silent.receive().id == 1
    before = resident_bytes(server)
    assert before + PART < LIMIT < before + 3 * PART
    for _ in rounds():
        peers = [RawPeer(server.address, window=MEBIBYTE, token=client.token) for _ in range(2)]
        calls = [(peer, peer.call("Converse")) for peer in peers]
        calls += [begin_upload(*each) for each in zip(peers, UPLOAD_IDS, strict=True)]
        send_to_all(calls, MESSAGE, client)
        until(lambda calls=calls: len(ended(calls)) >= 2)
        until(lambda: resident_bytes(server) < LIMIT)
        for peer, stream in ended(calls):
            reported = (
                f"for more than 1 s while the server has at most {LIMIT} bytes of memory, got "
            )
            assert reported.encode() in peer.header_blocks[stream]
            assert UNAVAILABLE in peer.header_blocks[stream]
            # The connection serves further calls.
            again = peer.call("DescribeSession", extension_pb2.DescribeSessionRequest())
            peer.wait_for(DATA, again)
        is_served(client)
        for peer in peers:
            peer.close()
        until(lambda: resident_bytes(server) < before + PART // 2)
        # The received part of an upload is kept, as after a broken connection.
        for upload_id in UPLOAD_IDS:
            client("AbandonUpload", extension_pb2.AbandonUploadRequest(upload_id=upload_id))
    # A client of which nothing is held was only silent.
    assert silent.call.is_active()
    silent.call.cancel()
    bystander.end_session()


def test_calls_in_progress_and_unread_answers_keep_no_part(server, client):
    """No status can be sent on such a stream, so it is reset."""
    ones = literal_to_proto(Literal.from_numpy(np.ones(MEBIBYTE // 4, np.float32)))
    data = client("TransferToServer", xla_pb2.TransferToServerRequest(literal=ones)).data
    before = resident_bytes(server)
    # All parts fit, however slowly they come, until a value takes it.
    assert before + 5 * SMALL_PART < LIMIT
    left = LIMIT - before - SMALL_PART // 2
    fill = client.compile(numbers(left // 4))
    for _ in rounds():
        peers = [RawPeer(server.address, token=client.token) for _ in range(4)]
        calls = []
        for peer in peers:
            stream = peer.call("Converse")
            request = question("TransferToClient", xla_pb2.TransferToClientRequest(data=data))
            assert peer.send_as_allowed(stream, message(request))
            calls.append((peer, stream))
        for peer, stream in calls:
            assert peer.send_as_allowed(stream, MESSAGE[:SMALL_PART])
        assert not ended(calls)
        value = client("Execute", xla_pb2.ExecuteRequest(handle=fill)).output
        # With one of them less is free than a part takes.
        until(lambda calls=calls: len(ended(calls)) == len(calls))
        until(lambda: resident_bytes(server) < LIMIT)
        client("Unregister", xla_pb2.UnregisterRequest(data=[value]))
        is_served(client)
        for peer in peers:
            peer.close()
        until(lambda: resident_bytes(server) < before + SMALL_PART)
    client("Unregister", xla_pb2.UnregisterRequest(data=[data]))


# Clients that go on ---------------------------------------------------------------------------


# A server with less memory than it takes, which keeps sessions for one second.
short_server = serving("--max-resident-bytes", "1", "--session-grace-seconds", "1")


@pytest.fixture(scope="module")
def watcher(short_server: ServerProcess) -> Plain:
    return Plain(short_server.address, token="")


@pytest.fixture
def honest(short_server: ServerProcess, watcher: Plain) -> Iterator[xc.Client]:
    before = watcher.counters()
    with xc.connect(short_server.address, shared_memory=False) as client:
        yield client
    until(lambda: watcher.counters() == before)


class Begun:
    """The streams that a client has begun, by their names."""

    def __init__(self, begin: Callable[..., Any]) -> None:
        self._begin = begin
        self._streams: dict[str, list[Any]] = collections.defaultdict(list)

    def __call__(self, name: str, *arguments: object, **named: object) -> Any:
        self._streams[name].append(self._begin(name, *arguments, **named))
        return self._streams[name][-1]

    def count(self, name: str) -> int:
        return len(self._streams[name])

    def is_ended(self, name: str) -> bool:
        """Return whether the last stream of an rpc has ended."""
        return not self._streams[name][-1].is_active


@pytest.fixture
def begun(honest: xc.Client, monkeypatch: pytest.MonkeyPatch) -> Begun:
    transport = honest._session.transport
    begun = Begun(transport.stream)
    monkeypatch.setattr(transport, "stream", begun)
    return begun


def let_be_suspected(client: xc.Client, begun: Begun, *names: str) -> None:
    """Let bytes come on the connection behind the last messages of streams, until they are ended.

    A stream's last message may be on its way for long, so bytes come again and again.
    """
    before = {name: begun.count(name) for name in names}

    def are_ended() -> bool:
        client.to_device(np.zeros(MEBIBYTE, np.uint8)).delete()
        return all(begun.count(name) > before[name] or begun.is_ended(name) for name in names)

    until(are_ended)


def let_a_session_end(server: ServerProcess, watcher: Plain) -> None:
    """Begin another session, and wait until it has been ended for its client's absence."""
    before = watcher.counters()
    Plain(server.address).close()
    until(lambda: watcher.counters() == before)


def test_a_client_whose_stream_was_ended_goes_on_by_another(short_server, watcher, honest):
    value = honest.to_device(np.arange(4, dtype=np.float32))
    conversation = honest._session.transport._conversation
    first = conversation._stream
    large = honest.to_device(np.zeros(MEBIBYTE, np.uint8))
    until(lambda: not first.is_active)
    # Longer than sessions are kept: the client does nothing, and is there.
    for _ in range(2):
        let_a_session_end(short_server, watcher)
    assert value.to_numpy().tolist() == [0, 1, 2, 3]
    assert large.shape.byte_size == MEBIBYTE
    assert honest.to_device(np.float32(1)).to_numpy() == 1
    assert conversation._stream not in (None, first)


def test_feeds_whose_streams_were_ended_lose_nothing_and_double_nothing(honest, begun):
    run = honest.compile(relay(6)).submit()
    received: list[int] = []
    with honest.device().outfeed(COUNT, 6) as values, honest.device().infeed(COUNT) as feed:
        for number in range(6):
            if number in (2, 4):
                let_be_suspected(honest, begun, "Infeed", "Outfeed")
            feed.put(number)
            received.append(int(next(values)))
    assert received == list(range(6))
    run.result()
    assert begun.count("Infeed") >= 2
    assert begun.count("Outfeed") >= 2


def test_an_upload_whose_stream_was_ended_goes_on_where_it_was(honest, begun):
    array = np.random.default_rng(0).integers(0, 255, 20 * MEBIBYTE, np.uint8)
    paused = []

    def progress(done: int, _: int) -> None:
        if done >= 8 * MEBIBYTE and not paused:
            paused.append(done)
            let_be_suspected(honest, begun, "Upload")

    value = honest.to_device(array, progress=progress)
    assert np.array_equal(value.to_numpy(), array)
    assert begun.count("Upload") == 2


def test_errors_of_plain_clients_have_the_limit_the_use_and_what_to_do(short_server, watcher):
    before = watcher.counters()
    client = Plain(short_server.address)
    stream = client.converse("DescribeSession", extension_pb2.DescribeSessionRequest())
    assert stream.receive().id == 1
    zeros = literal_to_proto(Literal.from_numpy(np.zeros(MEBIBYTE, np.uint8)))
    client("TransferToServer", xla_pb2.TransferToServerRequest(literal=zeros))
    with pytest.raises(grpc.RpcError) as caught:
        stream.receive()
    assert stream.call.code() is grpc.StatusCode.UNAVAILABLE
    reported = str(caught.value)
    assert "at most 1 bytes of memory, got " in reported
    assert "with 1 such streams that may hold parts of messages, 1 of them on this" in reported
    client.end_session()
    until(lambda: watcher.counters() == before)
