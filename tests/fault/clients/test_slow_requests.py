"""Requests that do not end: what has come of them is let go of when memory is short."""

import time

import numpy as np

from tests.fault.calls import is_served
from tests.fault.clients.conftest import LIMIT, MEBIBYTE, ended, resident_bytes, send_to_all
from tests.fault.plain import until
from tests.fault.raw_peer import DATA, HEADERS, RawPeer
from tests.fault.rounds import rounds
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.stubs import xla_pb2
from xla_contract.types.literal import Literal
from xla_contract.wire.literals.proto import literal_to_proto

NAMES = (
    ("TransferToServer", "Compile", "Download"),
    ("TransferToServer", "Run", "/grpc.health.v1.Health/Watch"),
)
"""Calls of two connections: rpcs of all kinds that have one request."""


def test_large_requests_that_do_not_end_are_refused_when_memory_is_short(server, client):
    before = resident_bytes(server)
    # One fits, two do not.
    part = (LIMIT - before) // 10 * 6
    assert part > 16 * MEBIBYTE
    message = b"\0" + (part + MEBIBYTE).to_bytes(4, "big") + bytes(part)
    for _ in rounds():
        peers = [RawPeer(server.address, window=MEBIBYTE, token=client.token) for _ in NAMES]
        calls = [
            (peer, peer.call(name))
            for peer, names in zip(peers, NAMES, strict=True)
            for name in names
        ]
        send_to_all(calls, message, client)
        until(lambda calls=calls: len(ended(calls)) >= len(calls) - 1)
        until(lambda: resident_bytes(server) < LIMIT)
        for peer, stream in ended(calls):
            reported = (
                f"for more than 1 s while the server has at most {LIMIT} bytes of memory, got "
            )
            assert reported.encode() in peer.header_blocks[stream]
            # The connection serves further calls.
            again = peer.call("DescribeSession", extension_pb2.DescribeSessionRequest())
            peer.wait_for(DATA, again)
        is_served(client)
        for peer in peers:
            peer.close()
        until(lambda: resident_bytes(server) < before + part // 2)


def test_a_request_may_arrive_slowly_while_there_is_memory(server, client):
    literal = literal_to_proto(Literal.from_numpy(np.zeros(MEBIBYTE, np.uint8)))
    request = xla_pb2.TransferToInfeedRequest(literal=literal).SerializeToString()
    message = b"\0" + len(request).to_bytes(4, "big") + request
    with RawPeer(server.address, window=MEBIBYTE, token=client.token) as peer:
        stream = peer.call("TransferToInfeed")
        third = len(message) // 3
        for start in range(0, 2 * third, third):
            assert peer.send_as_allowed(stream, message[start : start + third])
            time.sleep(1.5)
        assert (HEADERS, stream) not in peer.frames
        assert peer.send_as_allowed(stream, message[2 * third :])
        peer.send_data(stream, b"", half_close=True)
        peer.wait_for(DATA, stream)
        assert client.describe().use.queued_bytes == MEBIBYTE
        client("ResetDevice", xla_pb2.ResetDeviceRequest())
