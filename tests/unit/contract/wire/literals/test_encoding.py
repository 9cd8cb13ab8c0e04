import tracemalloc

import numpy as np
import pytest

from xla_contract.errors import ResourceExhaustedError
from xla_contract.stubs import xla_pb2
from xla_contract.types.element_type import ElementType
from xla_contract.types.layout import Layout, PaddingValue
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.literals import encoding as literal_encoding
from xla_contract.wire.literals.encoding import encode_literal_message, max_encoded_bytes
from xla_contract.wire.literals.proto import literal_to_proto

MEBIBYTE = 1 << 20
ARRAY_TYPES = [element_type for element_type in ElementType if element_type.is_array]


def request(**fields: object) -> xla_pb2.TransferToServerRequest:
    return xla_pb2.TransferToServerRequest(device_handle={"handle": 1}, **fields)  # type: ignore[arg-type]


def agrees(literal: Literal) -> None:
    expected = request(literal=literal_to_proto(literal))
    assert encode_literal_message(request(), literal) == expected.SerializeToString(
        deterministic=True
    )


@pytest.mark.parametrize("element_type", ARRAY_TYPES)
@pytest.mark.parametrize(
    "layout",
    [Layout((1, 0)), Layout((0, 1)), Layout((0, 1), (5, 64), PaddingValue.ONE_PAD)],
    ids=str,
)
def test_every_type_in_every_layout_is_the_bytes_protobuf_writes(
    element_type: ElementType, layout: Layout
) -> None:
    shape = Shape.array(element_type, (4, 64)).with_layout(layout)
    raw = np.random.default_rng(1).integers(
        0, 256, (4, 64 * element_type.byte_width), dtype=np.uint8
    )
    if element_type is ElementType.PRED:
        raw &= 1
    agrees(Literal.from_numpy(raw.view(element_type.dtype), shape))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64])
@pytest.mark.parametrize("order", [(2, 1, 0), (0, 2, 1), (1, 0, 2)])
def test_integers_of_several_blocks_are_in_order(
    dtype: type[np.integer], order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(literal_encoding, "BLOCK", 8)
    values = np.random.default_rng(0).integers(-(2**63), 2**63, (7, 41, 5), np.int64)
    values >>= np.arange(values.size).reshape(values.shape) % 64
    shape = Shape.array(ElementType.from_dtype(dtype), values.shape).with_layout(Layout(order))
    agrees(Literal.from_numpy(values.astype(dtype), shape))


@pytest.mark.parametrize("element_type", [each for each in ElementType if each.is_array])
def test_elements_take_no_more_than_is_said(element_type: ElementType) -> None:
    memory = np.full(1000 * element_type.dtype.itemsize, 0xFF, np.uint8)
    if element_type is ElementType.PRED:
        memory[:] = 1
    literal = Literal.from_numpy(memory.view(element_type.dtype))
    size, most = len(encode_literal_message(request(), literal)), max_encoded_bytes(literal.shape)
    assert size - 64 <= most
    # Integers that are all ones take ten bytes where they are of 64 bits or negative.
    assert most <= 2 * size
    pair = Literal.tuple_of([literal, Literal.token(), literal])
    assert max_encoded_bytes(pair.shape) == 2 * most


def test_whatever_is_true_is_one() -> None:
    value = np.array([0, 1, 2, 255], np.uint8).view(np.bool_)
    data = encode_literal_message(request(), Literal.from_numpy(value))
    read = xla_pb2.TransferToServerRequest.FromString(data)
    assert list(read.literal.preds) == [False, True, True, True]
    assert b"\x12\x04\x00\x01\x01\x01" in data


@pytest.mark.parametrize("layout", [Layout((1, 0)), Layout((0, 1))], ids=str)
def test_one_copy_is_made(layout: Layout) -> None:
    value = np.zeros((1024, 1024), np.float32)
    literal = Literal.from_numpy(value, Shape.parse("f32[1024,1024]").with_layout(layout))
    tracemalloc.start()
    data = encode_literal_message(request(), literal)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(data) > value.nbytes
    assert peak < value.nbytes + MEBIBYTE // 4


def test_integers_take_their_encoded_size_twice_and_a_block() -> None:
    value = np.full((1 << 20), 2**31 - 1, np.int32)
    literal = Literal.from_numpy(value)
    tracemalloc.start()
    data = encode_literal_message(request(), literal)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * len(data) + 4 * MEBIBYTE


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_what_no_message_holds_is_refused(
    dtype: type[np.generic], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(literal_encoding, "MAX_MESSAGE_BYTES", 1000)
    literal = Literal.from_numpy(np.full(1000, 2**30).astype(dtype))
    with pytest.raises(ResourceExhaustedError, match=r"may take 1000 bytes, got .*\[1000\]"):
        encode_literal_message(request(), literal)


def test_memory_for_a_large_message_and_its_copy_is_made_resident(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted: list[tuple[int, int]] = []
    monkeypatch.setattr(
        literal_encoding.allocator, "make_resident", lambda *sizes: wanted.append(sizes)
    )
    agrees(Literal.from_numpy(np.zeros(2 * MEBIBYTE, np.uint8)))
    assert not wanted
    large = Literal.from_numpy(np.zeros(4 * MEBIBYTE, np.uint8))
    size = len(encode_literal_message(request(), large))
    ((requested, copies),) = wanted
    assert requested >= size + bytes.__basicsize__
    assert copies == 2
