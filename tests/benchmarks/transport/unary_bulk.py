"""Benchmarks of transfers in one message: against bare bytes, and those against TCP."""

import functools
import socket
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import ml_dtypes
import numpy as np

import xla_client
from tests.benchmarks.harness import Comparison, compare
from tests.benchmarks.transport.echo_server import UNLIMITED, send_block, written_bytes
from xla_contract.stubs import xla_pb2
from xla_contract.types.element_type import ElementType
from xla_contract.types.literal import Array
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import shape_to_proto
from xla_contract.wire.varint import encode_varint

MEBIBYTE = 1 << 20
_AS_SENT = ("f32", "f64", "c64", "bf16", "u8", "pred")
"""Arrays whose memory is what is sent."""


def unary_bulk(
    client: xla_client.Client, echo: grpc.Channel, tcp: socket.socket
) -> Iterator[Comparison]:
    """Uploads and downloads of each kind of element; `client` must only send single messages.

    The peer moves as many bytes as the array has, of memory that was written: pages that never
    were are one page of zeros, which any processor has in its cache. Gates are for large messages:
    with those of 1 MiB the time of a call is a good part.
    """
    for mebibytes, calls in ((64, 1), (1, 16)):
        size = mebibytes * MEBIBYTE
        sink, source = _sink(echo, size), _source(echo, size)
        block = memoryview(written_bytes(size))
        is_large = size >= 64 * MEBIBYTE
        yield compare(
            f"raw bytes in a message, {mebibytes} MiB",
            "TCP socket",
            sink,
            functools.partial(send_block, tcp, block),
            calls=calls,
            gate=0.35 if is_large else None,
        )
        for name, array in _arrays(size).items():
            gate = 0.55 if is_large and name in _AS_SENT else None
            yield compare(
                f"TransferToServer, {mebibytes} MiB {name}",
                "raw bytes to a sink",
                functools.partial(client.to_device, array),
                sink,
                calls=calls,
                gate=gate,
            )
            resident = client.to_device(array)
            yield compare(
                f"TransferToClient, {mebibytes} MiB {name}",
                "raw bytes from a source",
                resident.to_numpy,
                source,
                calls=calls,
                gate=gate,
            )
            resident.delete()
        with grpc.insecure_channel(client.target, UNLIMITED) as channel:
            yield compare(
                f"TransferToServer, {mebibytes} MiB f32 in two chunks",
                "raw bytes to a sink",
                _unusual_upload(channel, size),
                sink,
                calls=calls,
                gate=0.40 if is_large else None,
            )


def _arrays(size: int) -> dict[str, Array]:
    random = np.random.default_rng(2)
    floats = random.standard_normal(size // 4, np.float32)
    columns = np.asfortranarray(floats.reshape(-1, 1024))
    return {
        "f32": floats,
        "f32 by columns": columns,
        "f64": floats.view(np.float64),
        "c64": floats.view(np.complex64),
        "bf16": floats.view(ml_dtypes.bfloat16),
        "u8": floats.view(np.uint8),
        "pred": random.integers(0, 2, size).astype(np.bool_),
        "s32 below 100": random.integers(0, 100, size // 4).astype(np.int32),
        "s32 below 50000": random.integers(0, 50_000, size // 4).astype(np.int32),
        "s64, any": random.integers(-(2**63), 2**63 - 1, size // 8),
    }


def _unusual_upload(channel: grpc.Channel, size: int) -> Callable[[], object]:
    """An upload that only protobuf's own parser reads: the elements come in two chunks."""
    half = np.zeros(size // 8, np.float32)
    shape = Shape.array(ElementType.F32, (size // 4,)).with_default_layout()
    written = shape_to_proto(shape).SerializeToString()
    shape_field = b"\x0a" + encode_varint(len(written)) + written
    chunk = b"\x42" + encode_varint(half.nbytes) + half.tobytes()
    literal = shape_field + chunk + chunk
    request = b"\x0a" + encode_varint(len(literal)) + literal
    transfer: Any = channel.unary_unary(
        "/xla.XlaService/TransferToServer",
        response_deserializer=xla_pb2.TransferToServerResponse.FromString,
    )
    unregister: Any = channel.unary_unary(
        "/xla.XlaService/Unregister",
        request_serializer=xla_pb2.UnregisterRequest.SerializeToString,
    )
    return lambda: unregister(xla_pb2.UnregisterRequest(data=[transfer(request).data]))


def _sink(echo: grpc.Channel, size: int) -> Callable[[], object]:
    call: Any = echo.unary_unary("/bench.Echo/Sink")
    payload = written_bytes(size)
    return lambda: call(payload)


def _source(echo: grpc.Channel, size: int) -> Callable[[], object]:
    call: Any = echo.unary_unary("/bench.Echo/Source")
    wanted = str(size).encode()
    return lambda: call(wanted)
