"""Benchmarks of literals: encoding and decoding, without a connection."""

from collections.abc import Iterator

import numpy as np

from tests.benchmarks.harness import Comparison, compare
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.decoding import decode_literal_message
from xla_contract.wire.literals.encoding import encode_literal_message
from xla_contract.wire.literals.proto import literal_from_proto, literal_to_proto

COUNT = 1_000_000


def literals() -> Iterator[Comparison]:
    """Filling, encoding and decoding a literal against the obvious ways."""
    random = np.random.default_rng(0)
    array = random.standard_normal(COUNT).astype(np.float32)
    literal = Literal.from_numpy(array)

    def naive() -> object:
        proto = xla_data_pb2.LiteralProto()
        proto.f32s.extend(array.tolist())
        return proto

    filled = literal_to_proto(literal)
    yield compare(
        "fill a literal, 1e6 f32",
        "f32s.extend(tolist())",
        lambda: literal_to_proto(literal),
        naive,
        gate=10,
    )
    yield compare(
        "read a literal, 1e6 f32",
        "np.array(list(f32s))",
        lambda: literal_from_proto(filled).to_numpy(),
        lambda: np.array(list(filled.f32s), np.float32),
    )
    arrays = {
        "f32": array,
        "f32 by columns": array.reshape(1000, 1000),
        "s32 below 50000": random.integers(0, 50_000, COUNT).astype(np.int32),
        "s32, any": random.integers(-(2**31), 2**31, COUNT).astype(np.int32),
        "s64 below 100": random.integers(0, 100, COUNT),
        "pred": random.integers(0, 2, COUNT).astype(np.bool_),
    }
    for name, values in arrays.items():
        shape = Shape.parse("f32[1000,1000]{0,1}") if name == "f32 by columns" else None
        yield from _both_ways(name, Literal.from_numpy(values, shape))


def _both_ways(name: str, literal: Literal) -> Iterator[Comparison]:
    """Compare encoding and decoding of a literal with protobuf's own parser and serializer."""
    empty = xla_pb2.TransferToServerRequest()
    data = encode_literal_message(empty, literal)
    yield compare(
        f"encode 1e6 {name}",
        "through a message",
        lambda: encode_literal_message(empty, literal),
        lambda: xla_pb2.TransferToServerRequest(
            literal=literal_to_proto(literal)
        ).SerializeToString(),
    )
    yield compare(
        f"decode 1e6 {name}",
        "through a message",
        lambda: decode_literal_message(xla_pb2.TransferToServerRequest, data).literal.read(),  # type: ignore[union-attr]
        lambda: literal_from_proto(xla_pb2.TransferToServerRequest.FromString(data).literal),
    )
