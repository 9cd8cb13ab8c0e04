from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError

from xla_contract.errors import ResourceExhaustedError, XlaError
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.types.element_type import ElementType
from xla_contract.types.literal import Literal
from xla_contract.types.shape import parse_shape
from xla_contract.wire.literals.decoding import LiteralMessage, decode_literal_message
from xla_contract.wire.literals.payload import PAYLOAD_FIELDS
from xla_contract.wire.literals.proto import literal_from_proto, literal_to_proto
from xla_contract.wire.shape_proto import shape_to_proto
from xla_contract.wire.varint import encode_varint

REQUEST = xla_pb2.TransferToInfeedRequest
ARRAY_TYPES = [element_type for element_type in ElementType if element_type.is_array]


def tagged(number: int, data: bytes) -> bytes:
    return encode_varint(number << 3 | 2) + encode_varint(len(data)) + data


def shape(text: str) -> bytes:
    return tagged(1, shape_to_proto(parse_shape(text)).SerializeToString())


def floats(*values: float) -> bytes:
    return tagged(8, np.array(values, "<f4").tobytes())


F32 = shape("f32[2]{0}") + floats(1, 2)
DEVICE = tagged(3, b"\x08\x01")


def received(data: bytes) -> LiteralMessage[Any]:
    return decode_literal_message(REQUEST, data)


def agree(data: bytes) -> LiteralMessage[Any] | None:
    """Return the literal that is read, after checking that protobuf agrees; None if both refuse
    it.
    """
    official = outcome(lambda: literal_from_proto(REQUEST.FromString(data).literal))
    assert outcome(lambda: received(data).literal.read()) == official  # type: ignore[union-attr]
    return received(data) if isinstance(official, Literal) else None


def outcome(read: Callable[[], Literal]) -> Literal | tuple[type[Exception], str]:
    """A literal, or the error with its words."""
    try:
        return read()
    except (DecodeError, XlaError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("element_type", ARRAY_TYPES)
def test_the_usual_form_of_every_type_is_read_without_protobuf(element_type: ElementType) -> None:
    array = np.arange(6).reshape(2, 3).astype(element_type.dtype)
    literal = Literal.from_numpy(array, parse_shape(f"{element_type.text}[2,3]{{0,1}}"))
    data = REQUEST(literal=literal_to_proto(literal), replica_id=3).SerializeToString()
    message = agree(data)
    assert message is not None
    assert message.literal is not None
    assert message.literal.is_usual
    assert message.literal.shape == literal.shape
    assert message.message.replica_id == 3
    value = message.literal.read().value
    assert not value.flags.writeable
    field = PAYLOAD_FIELDS[element_type]
    if element_type.bit_width >= 8 and not (field.packed == "varint" and field.name != "preds"):
        start = np.frombuffer(data, np.uint8).ctypes.data
        assert start <= value.ctypes.data < start + len(data)


@pytest.mark.parametrize(
    "literal",
    [
        F32,
        floats(1, 2) + shape("f32[2]{0}"),
        shape("f32[0]{0}"),
        shape("f32[0]{0}") + floats(),
        shape("pred[3]{0}") + tagged(2, b"\x00\x01\x01"),
        shape("s32[3]{0}") + tagged(4, b"\x00\x7f\x01"),
        shape("s32[1]{0}") + tagged(4, b"\xff" * 9 + b"\x01"),
        shape("s32[2]{0}") + tagged(4, b"\x80\x00\x01"),
        shape("u32[1]{0}") + tagged(6, b"\xff" * 9 + b"\x7f"),
        shape("s64[0]{0}") + tagged(5, b""),
        shape("s64[0]{0}"),
        shape("s4[2]{0}") + tagged(21, b"\xff\x03"),
        shape("f32[<=2]{0}") + floats(1, 2) + tagged(34, b"\x01"),
        shape("f32[<=2]{0}") + floats(1, 2) + b"\x90\x02\x01",
    ],
)
def test_usual_forms(literal: bytes) -> None:
    message = agree(tagged(1, literal) + DEVICE)
    assert message is not None
    assert message.literal is not None
    assert message.literal.is_usual
    assert message.message.device_handle.handle == 1


@pytest.mark.parametrize(
    "literal",
    [
        F32 + floats(1, 2),
        shape("f32[2]{0}") + floats(1) + floats(2),
        shape("f32[2]{0}") + b"\x45" + b"\0\0\x80\x3f" + floats(2),
        shape("f32[2]{0}") + (b"\x45" + b"\0\0\x80\x3f") * 2,
        shape("f32[2]{0}") + shape("f32[2]{0}") + floats(1, 2),
        shape("f32[2]{0}") + tagged(1, b"\x10\x03") + floats(1, 2),
        tagged(1, b"\x10\x03") + F32,
        shape("f32[3]{0}") + floats(1, 2),
        shape("f32[1]{0}") + floats(1, 2),
        shape("f32[2]{0}") + tagged(8, b"\0" * 7),
        shape("f32[2]{0}"),
        shape("f32[2]") + floats(1, 2),
        shape("f32[?]{0}") + floats(1),
        shape("f32[<=2]{0}") + floats(1, 2) + tagged(34, b"\x03"),
        shape("s32[<=2]{0}") + tagged(4, b"\x01\x02") + tagged(34, b"\x01"),
        shape("s32[<=2]{0}") + tagged(4, b"\x01\x02") + tagged(34, b"\x03"),
        shape("f32[2]{0}") + tagged(8, b"\0" * 8)[:1] + b"\x88\0" + b"\0" * 8,
        shape("f32[2]{0}") + b"\x42\x7f" + b"\0" * 8,
        shape("f32[2]{0}") + b"\xc2\x80\x00\x08" + b"\0" * 8,
        shape("f64[2]{0}") + floats(1, 2),
        shape("pred[2]{0}") + tagged(2, b"\x01\x02"),
        shape("pred[1]{0}") + tagged(2, b"\x80\x01"),
        shape("pred[2]{0}") + tagged(2, b"\x80\x01"),
        shape("s32[2]{0}") + tagged(4, b"\x80\x00"),
        shape("s32[1]{0}") + tagged(4, b"\x80" * 10 + b"\x00"),
        shape("s32[2]{0}") + b"\x20\x01\x20\x02",
        shape("s32[2]{0}") + tagged(4, b"\x01\x80"),
        shape("s64[2]{0}") + tagged(5, b"\x01"),
        F32 + tagged(99, b"unknown"),
        F32 + b"\x9b\x06\x9c\x06",
        F32 + b"\x9b\x06",
        F32 + tagged(14, b"\x01"),
        F32 + tagged(10, b""),
        F32 + b"\x00\x00",
        F32 + b"\x80",
        floats(1, 2),
        b"",
        shape("token[]"),
        shape("(f32[2]{0})") + tagged(10, F32),
    ],
)
def test_in_other_forms_protobuf_decides(literal: bytes) -> None:
    for data in (tagged(1, literal), tagged(1, literal) + DEVICE):
        message = agree(data)
        assert message is None or not message.literal.is_usual  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "data",
    [
        tagged(1, F32) + tagged(1, F32),
        tagged(1, F32) + tagged(1, tagged(1, b"\x10\x03")),
        tagged(1, F32) + tagged(1, b""),
        tagged(1, F32) + tagged(99, b""),
        b"\x0a\x7f" + F32,
        tagged(1, F32)[:-1],
        tagged(1, F32) + b"\x0a",
        b"\x08\x01" + tagged(1, F32),
        tagged(1, F32) + tagged(3, b"\x0a\x7f"),
        tagged(1, F32) + tagged(2, b"\x01"),
    ],
)
def test_in_other_forms_of_the_whole_message_too(data: bytes) -> None:
    agree(data)


def test_a_message_may_lack_its_literal() -> None:
    assert received(b"").literal is None
    assert received(DEVICE).message.device_handle.handle == 1


def test_fields_beside_a_literal_that_come_twice_are_joined_as_protobuf_joins_them() -> None:
    data = tagged(3, b"\x08\x01") + tagged(1, F32) + tagged(3, b"\x10\x02") + b"\x10\x05"
    message = agree(data)
    assert message is not None
    official = REQUEST.FromString(data)
    assert message.message.device_handle == official.device_handle
    assert message.message.replica_id == 5


def test_many_fields_long_ones_and_unknown_ones_are_left_to_protobuf() -> None:
    for extra in (b"\x10\x01" * 70, tagged(3, tagged(99, bytes(5000))), tagged(99, b"")):
        message = agree(tagged(1, F32) + extra)
        assert message is not None
        assert not message.literal.is_usual  # type: ignore[union-attr]


def test_a_limit_of_bytes_says_itself_and_the_use() -> None:
    literal = received(tagged(1, F32)).literal
    assert literal is not None
    assert literal.read(8).value.size == 2
    with pytest.raises(ResourceExhaustedError) as caught:
        literal.read(7)
    with pytest.raises(ResourceExhaustedError) as official:
        literal_from_proto(xla_data_pb2.LiteralProto.FromString(F32), max_bytes=7)
    assert str(caught.value) == str(official.value)


def test_nothing_is_allocated_for_a_claim_without_its_payload() -> None:
    claim = tagged(1, shape(f"s64[{2**40}]{{0}}") + tagged(5, b"\x01"))
    assert agree(claim) is None
