"""Literals in every legal form arrive, and leave as protobuf would write them."""

import json
from typing import Any

import grpc
import numpy as np
import pytest
from grpc import StatusCode

from tests.e2e import modules
from tests.e2e.process import Raw, ServerProcess, refused
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.wire.varint import encode_varint

UPLOAD = "/xla.XlaService/TransferToServer"


def tagged(number: int, data: bytes) -> bytes:
    return encode_varint(number << 3 | 2) + encode_varint(len(data)) + data


def shape(text: str) -> bytes:
    return tagged(1, modules.shape(text).SerializeToString())


def upload(raw: Raw, literal: bytes) -> xla_data_pb2.GlobalDataHandle:
    answer = raw.send_bytes(UPLOAD, tagged(1, literal))
    return xla_pb2.TransferToServerResponse.FromString(answer).data


ONE, TWO = np.float32(1).tobytes(), np.float32(2).tobytes()


@pytest.mark.parametrize(
    "payload",
    [
        tagged(8, ONE + TWO),
        tagged(8, ONE) + tagged(8, TWO),
        b"\x45" + ONE + b"\x45" + TWO,
        tagged(8, ONE) + b"\x45" + TWO,
        tagged(8, ONE + TWO) + tagged(99, b"unknown"),
    ],
    ids=["one chunk", "two chunks", "unpacked", "mixed", "unknown field"],
)
def test_legal_forms_are_the_same_value(raw: Raw, payload: bytes) -> None:
    for literal in (shape("f32[2]") + payload, payload + shape("f32[2]")):
        assert list(raw.download(upload(raw, literal)).f32s) == [1, 2]


@pytest.mark.parametrize(
    "payload",
    [
        tagged(8, ONE),
        tagged(8, ONE + TWO) + tagged(8, ONE),
        tagged(8, (ONE + TWO)[:-1]),
        b"\x42\x7f" + ONE + TWO,
        tagged(9, ONE + TWO),
    ],
    ids=["too few", "too many", "half a number", "out of bounds", "another type"],
)
def test_illegal_forms_are_refused(raw: Raw, payload: bytes) -> None:
    refused(StatusCode.INVALID_ARGUMENT, upload, raw, shape("f32[2]") + payload)


@pytest.mark.parametrize("how", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_requests_are_refused_before_they_are_expanded(
    server: ServerProcess, how: grpc.Compression
) -> None:
    with grpc.insecure_channel(server.address, compression=how) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(UPLOAD)(bytes(1 << 16), timeout=100)
        assert caught.value.code() is StatusCode.UNIMPLEMENTED, caught.value
    # grpc would log a line of text for each, without a limit.
    for line in server.log.read_text().splitlines():
        json.loads(line)


@pytest.mark.parametrize(
    "value",
    [
        np.arange(24, dtype=np.float32).reshape(2, 3, 4),
        np.array([[True, False], [False, True]]),
        np.array([-1, 0, 127, 128, 2**31 - 1, -(2**31)], np.int32),
        np.array([2**64 - 1, 0], np.uint64),
        np.array([1 + 2j], np.complex64),
        np.zeros((0, 3), np.float64),
    ],
    ids=lambda value: str(value.dtype),
)
def test_answers_are_the_bytes_protobuf_writes(raw: Raw, value: Any) -> None:
    request = xla_pb2.TransferToClientRequest(data=raw.upload(value)).SerializeToString()
    answer = raw.send_bytes("/xla.XlaService/TransferToClient", request)
    expected = xla_pb2.TransferToClientResponse(literal=modules.literal(value))
    assert answer == expected.SerializeToString(deterministic=True)
