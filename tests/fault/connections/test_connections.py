"""Clients that connect and say nothing, and a server that is stopped while it streams."""

import contextlib
import signal
import socket

import grpc
import numpy as np
import psutil
import pytest
from grpc import StatusCode

import xla_client as xc
from tests.e2e import modules
from tests.e2e.process import Raw, start_server
from tests.fault.plain import RPCS_BY_NAME, Plain, Stream, has_drained, until
from tests.fault.raw_peer import END_HEADERS, HEADERS, PREFACE, SETTINGS, frame, header_block
from tests.fault.rounds import IS_SOAK
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.stubs import xla_pb2

HALF_OPEN = 8 * 200 if IS_SOAK else 200
"""Number of half-open connections of each of eight forms."""
CHUNK = 1 << 20
SIZE = 4 * CHUNK
BEGINNING = PREFACE + frame(SETTINGS)


def headers(name, metadata=()):
    """A frame that begins a call on stream 1 and leaves its message out."""
    block = header_block(RPCS_BY_NAME[name].path, metadata)
    return frame(HEADERS, END_HEADERS, 1, block)


def half_open(address, number):
    """A connection that stops after nothing, the preface, a call's headers or half a frame."""
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=10)
    said = (
        b"",
        PREFACE,
        PREFACE[:9],
        BEGINNING,
        BEGINNING + headers("Execute"),
        BEGINNING + headers("Upload"),
        BEGINNING + headers("Converse"),
        BEGINNING + headers("Execute")[:20],
    )
    connection.sendall(said[number % len(said)])
    return connection


def counters(client):
    """Sessions, and bytes on the devices once what the client dropped is free."""
    client.free_unused()
    request = extension_pb2.DescribeSessionRequest()
    use = client._session.call("DescribeSession", request)
    return use.server_sessions, use.server_device_bytes


def wait_for_log(server, words):
    until(lambda: words in server.log.read_text())


def test_connections_that_stop_half_way_keep_no_other_from_being_served(tmp_path):
    with (
        start_server(tmp_path, "--platform", "interpreter") as server,
        contextlib.ExitStack() as stack,
    ):
        client = stack.enter_context(xc.connect(server.address, timeout=20))
        before = counters(client)
        connections = [half_open(server.address, number) for number in range(HALF_OPEN)]
        for connection in connections:
            stack.callback(connection.close)
        for _ in range(20):
            array = np.arange(1 << 16, dtype=np.float32)
            assert np.array_equal(client.to_device(array).to_numpy(), array)
        with xc.connect(server.address, timeout=20) as another:
            assert another.to_device(7).to_numpy() == 7
        for connection in connections:
            connection.close()
        until(lambda: counters(client) == before)
        server.process.terminate()
        has_drained(server)


def test_a_call_whose_headers_were_cut_off_opens_no_session(tmp_path):
    """The connection is cut behind the path and before the token, which comes last: the call has no
    identity.
    """
    with start_server(tmp_path, "--platform", "interpreter") as server:
        client = Plain(server.address)
        process = psutil.Process(server.process.pid)
        client.describe()
        connected, before = len(process.net_connections("tcp")), client.counters()
        host, _, port = server.address.rpartition(":")
        for name in ("Converse", "Upload", "Infeed", "Outfeed"):
            whole = headers(name, [("xla-session", client.token)])
            for cut in range(1, len(whole), 4):
                with socket.create_connection((host, int(port)), timeout=10) as connection:
                    connection.sendall(BEGINNING + whole[:cut])
                    connection.recv(1)  # The server has begun to read.
        until(lambda: len(process.net_connections("tcp")) == connected)
        # Whoever came before them would have a session by now.
        assert [client.counters() for _ in range(5)] == [before] * 5
        client.end_session()


def streaming(raw, name, request=None):
    """A streaming call on the connection of a client, which is its session."""
    return Stream(raw._channel, name, (), request)


def upload_start():
    return extension_pb2.UploadRequest(
        start=extension_pb2.UploadStart(
            upload_id=b"one", shape=modules.shape(f"u8[{SIZE}]"), offset=0
        )
    )


def chunks(data, first, end):
    for number in range(first, end):
        part = data[number * CHUNK : (number + 1) * CHUNK]
        chunk = extension_pb2.Chunk(offset=number * CHUNK, data=part)
        yield extension_pb2.UploadRequest(chunk=chunk)


def ends_unavailable(call, *arguments):
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments)
    assert caught.value.code() is StatusCode.UNAVAILABLE, caught.value.details()


def is_unavailable(raw):
    with pytest.raises(grpc.RpcError) as caught:
        raw.GetShape(xla_pb2.GetShapeRequest())
    return caught.value.code() is StatusCode.UNAVAILABLE


def begin_upload(raw, data):
    """An upload of which half has arrived."""
    upload = streaming(raw, "Upload")
    upload.send(upload_start(), *chunks(data, 0, 2))

    requested = extension_pb2.GetUploadRequest(upload_id=b"one")

    def has_begun():
        with contextlib.suppress(grpc.RpcError):  # Not even the start has come.
            return raw.GetUpload(requested).offset == 2 * CHUNK
        return False

    until(has_begun)
    return upload


def begin_infeed(raw):
    """Open a stream of items without a consumer."""
    infeed = streaming(raw, "Infeed")
    infeed.send(extension_pb2.InfeedRequest(start=extension_pb2.InfeedStart()))
    assert next(infeed.call).WhichOneof("part") == "started"
    return infeed


def begin_outfeed(raw):
    """A stream that waits for items."""
    outfeed = streaming(raw, "Outfeed")
    credit = extension_pb2.Credit(items=1, bytes=100)
    start = extension_pb2.OutfeedStart(credit=credit)
    outfeed.send(extension_pb2.OutfeedRequest(start=start))
    assert next(outfeed.call).WhichOneof("part") == "started"
    return outfeed


def test_what_streams_may_end_while_the_server_drains(tmp_path):
    data = np.random.default_rng(0).integers(0, 256, SIZE, np.uint8).tobytes()
    flags = ("--platform", "interpreter", "--grace-seconds", "60", "--log-level", "debug")
    with start_server(tmp_path, *flags) as server:
        raw = Raw(server.address)
        upload = begin_upload(raw, data)
        request = xla_pb2.ComputeConstantGraphRequest(computation=modules.countdown(20_000))
        running = raw.ComputeConstantGraph.future(request, timeout=60)
        wait_for_log(server, "ComputeConstantGraph")
        server.process.send_signal(signal.SIGTERM)
        # New connections are soon refused, calls on old ones too.
        for calling in (raw, Raw(server.address)):
            until(lambda calling=calling: is_unavailable(calling))
            assert all(is_unavailable(calling) for _ in range(10))
        upload.send(*chunks(data, 2, 4))
        upload.half_close()
        assert upload.result().data.handle
        assert running.result().literal.s32s == [0]
        has_drained(server)


def test_what_streams_on_is_ended_at_the_deadline(tmp_path):
    data = bytes(SIZE)
    flags = ("--platform", "interpreter", "--grace-seconds", "0.5", "--log-level", "debug")
    with start_server(tmp_path, *flags) as server:
        raw = Raw(server.address)
        resident = raw.upload(np.zeros(64 << 20, np.uint8))
        download = streaming(raw, "Download", extension_pb2.DownloadRequest(data=resident)).call
        next(download)  # And no more is read: the server waits for flow control.
        upload = begin_upload(raw, data)
        infeed = begin_infeed(raw)
        outfeed = begin_outfeed(raw)
        handle = raw.compile(modules.echo_feed())
        waiting = raw.Execute.future(xla_pb2.ExecuteRequest(handle=handle), timeout=60)
        endless = raw.ComputeConstantGraph.future(
            xla_pb2.ComputeConstantGraphRequest(computation=modules.endless()), timeout=60
        )
        wait_for_log(server, "ComputeConstantGraph")
        wait_for_log(server, "Execute")
        server.process.send_signal(signal.SIGTERM)
        for future in (upload.call, waiting, endless):
            ends_unavailable(future.result)
        for stream in (infeed.call, outfeed.call):
            ends_unavailable(list, stream)
        # Chunks that were under way arrive, then it ends.
        ends_unavailable(list, download)
        has_drained(server)


def test_shared_memory_is_used_until_the_server_has_drained(tmp_path):
    flags = ("--platform", "interpreter", "--grace-seconds", "20", "--log-level", "debug")
    with (
        start_server(tmp_path, *flags) as server,
        xc.connect(server.address, timeout=30) as client,
    ):
        array = np.arange(1 << 18, dtype=np.float32)
        buffer = client.to_device(array)
        kept = buffer.to_numpy()
        assert client._session.shared_memory.is_connected
        server.process.send_signal(signal.SIGTERM)
        has_drained(server)
        # Values in the client's memory stay, server or not.
        assert np.array_equal(kept, array)
        with pytest.raises(xc.UnavailableError):
            client.to_device(array, timeout=5)
