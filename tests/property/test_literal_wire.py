"""The literal codec against protobuf's own: the same literals, the same errors, the same bytes."""

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
from google.protobuf.message import DecodeError, Message
from hypothesis import example, given, settings

from tests.property.test_contract_laws import arrays_with_bits
from xla_contract.errors import XlaError
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.decoding import decode_literal_message
from xla_contract.wire.literals.encoding import encode_literal_message
from xla_contract.wire.literals.payload import PAYLOAD_FIELDS
from xla_contract.wire.literals.proto import literal_from_proto, literal_to_proto
from xla_contract.wire.shape_proto import shape_to_proto
from xla_contract.wire.varint import encode_varint, encode_varints

KINDS: list[type[Any]] = [
    xla_pb2.TransferToServerRequest,
    xla_pb2.TransferToInfeedRequest,
    xla_pb2.TransferToClientResponse,
    xla_pb2.TransferFromOutfeedResponse,
    xla_pb2.ComputeConstantResponse,
]
VARINT, FIXED64, LENGTH, START_GROUP, END_GROUP, FIXED32 = range(6)


LENGTHS = st.integers(1, 40).map(lambda number: {38: 3, 39: 5, 40: 6}.get(number, 1))
"""Bytes of a length: mostly as few as it needs."""


def seldom(draw: st.DrawFn) -> bool:
    """Draw whether to do something rare; several at once leave little to compare."""
    return draw(st.integers(0, 9)) == 9


def others(kind: type[Message], device: int = 1, replica: int = 0) -> Any:
    """A message of a kind without its literal."""
    message: Any = kind()
    if "device_handle" in kind.DESCRIPTOR.fields_by_name:
        message.device_handle.handle = device
    if "replica_id" in kind.DESCRIPTOR.fields_by_name:
        message.replica_id = replica
    return message


def overlong(value: int, length: int) -> bytes:
    """A varint of `length` bytes or as many as it needs."""
    shortest = encode_varint(value)
    if len(shortest) >= length:
        return shortest
    padding = length - len(shortest)
    return shortest[:-1] + bytes([shortest[-1] | 0x80]) + b"\x80" * (padding - 1) + b"\0"


def tagged(number: int, data: bytes, length_bytes: int = 1) -> bytes:
    return encode_varint(number << 3 | LENGTH) + overlong(len(data), length_bytes) + data


def entries_of(literal: Literal) -> list[bytes]:
    """The entries of a payload field as they are packed, one by one; of bytes, the bytes."""
    field = PAYLOAD_FIELDS[literal.shape.element_type]
    proto = literal_to_proto(literal)
    payload = getattr(proto, field.name)
    if not field.packed:
        return [payload[at : at + 1] for at in range(len(payload))]
    if field.packed == "varint":
        return [encode_varint(int(value) & 2**64 - 1) for value in payload]
    dtype = literal.shape.element_type.real_component.dtype
    raw = np.asarray(payload, dtype).tobytes()
    return [raw[at : at + dtype.itemsize] for at in range(0, len(raw), dtype.itemsize)]


@st.composite
def payloads(draw: st.DrawFn, literal: Literal) -> bytes:
    """The payload in some of its legal forms, and in some that are none."""
    field = PAYLOAD_FIELDS[literal.shape.element_type]
    entries = entries_of(literal)
    if field.packed == "varint" and seldom(draw):
        length = draw(st.integers(1, 12))
        entries = [
            entry[:-1] + overlong(entry[-1], length - len(entry) + 1) if len(entry) == 1 else entry
            for entry in entries
        ]
    if field.name == "preds" and entries and seldom(draw):
        entries[draw(st.integers(0, len(entries) - 1))] = draw(
            st.sampled_from([b"\x02", b"\x7f", b"\x80\x01", b"\x80\x00", b"\x80"])
        )
    change = draw(st.integers(-2, 2)) if seldom(draw) else 0
    entries = entries[:change] if change < 0 else entries + entries[:change]
    cuts = []
    if seldom(draw):
        cuts = sorted(draw(st.lists(st.integers(0, len(entries)), max_size=2)))
    parts = []
    for start, stop in zip([0, *cuts], [*cuts, len(entries)], strict=True):
        wire_type = {4: FIXED32, 8: FIXED64}.get(len(entries[0]) if entries else 0, VARINT)
        if field.packed == "varint":
            wire_type = VARINT
        if field.packed and seldom(draw):
            tag = encode_varint(field.number << 3 | wire_type)
            parts.append(b"".join(tag + entry for entry in entries[start:stop]))
        else:
            packed = b"".join(entries[start:stop])
            parts.append(tagged(field.number, packed, draw(LENGTHS)))
    return b"".join(parts)


ODDITIES = st.sampled_from(
    [
        tagged(99, b"unknown"),
        encode_varint(99 << 3 | VARINT) + b"\x05",
        encode_varint(99 << 3 | START_GROUP) + b"\x08\x01" + encode_varint(99 << 3 | END_GROUP),
        encode_varint(1 << 3 | VARINT) + b"\x01",  # The shape in another wire type.
        encode_varint(8 << 3 | FIXED32) + b"\0\0\x80\x3f",
        encode_varint(4 << 3 | VARINT) + b"\x07",
        tagged(3, b"u8"),
        tagged(14, b"\x01"),
        tagged(34, b""),
        tagged(34, b"\x02"),
        tagged(10, b""),
        tagged(1, b""),
        b"\x00",
        b"\x07",
        b"\x0c",
        b"\x80",
    ]
)


@st.composite
def literal_bytes(draw: st.DrawFn) -> bytes:
    """The bytes of a LiteralProto, legal or nearly."""
    literal = draw(arrays_with_bits())
    shape = shape_to_proto(literal.shape)
    if seldom(draw):
        sizes = shape.is_dynamic_dimension
        for number in range(len(sizes)):
            sizes[number] = draw(st.booleans())
    if seldom(draw):
        shape.ClearField(draw(st.sampled_from(["layout", "element_type", "dimensions"])))
    fields = [tagged(1, shape.SerializeToString(), draw(LENGTHS))]
    fields.append(draw(payloads(literal)))
    if seldom(draw):
        actual = [draw(st.integers(-1, size)) for size in literal.shape.dimensions]
        fields.append(xla_data_pb2.LiteralProto(dynamic_sizes=actual).SerializeToString())
    if seldom(draw):
        fields.append(draw(ODDITIES | st.sampled_from(fields)))
    if seldom(draw):
        fields = draw(st.permutations(fields))
    return b"".join(fields)


@st.composite
def messages(draw: st.DrawFn) -> tuple[type[Any], bytes]:
    """The bytes of a message that carries a literal, and its kind."""
    kind = draw(st.sampled_from(KINDS))
    literal = draw(literal_bytes())
    fields = [tagged(1, literal, draw(LENGTHS))]
    handle, replica = draw(st.integers(-5, 5)), draw(st.integers(-2, 2))
    fields.append(others(kind, handle, replica).SerializeToString())
    if seldom(draw):
        fields.append(draw(ODDITIES | st.sampled_from(fields)))
    if seldom(draw):
        fields = draw(st.permutations(fields))
    data = b"".join(fields)
    if seldom(draw):
        at = draw(st.integers(0, len(data)))
        inserted = draw(st.binary(max_size=2))
        data = data[:at] + inserted + data[at + draw(st.integers(0, 2)) :]
    return kind, data


def outcome(read: Callable[[], tuple[Any, Literal | None]]) -> tuple[object, ...]:
    """Return the result of reading: fields and literal, or the error and its message."""
    try:
        message, literal = read()
    except (XlaError, DecodeError) as error:
        return type(error), str(error)
    message.ClearField("literal")
    # Protobuf may keep unknown fields; they do not matter here.
    message.DiscardUnknownFields()
    return message.SerializeToString(deterministic=True), literal


def officially(kind: type[Any], data: bytes, limit: int | None) -> tuple[object, ...]:
    def read() -> tuple[Any, Literal | None]:
        message = kind.FromString(data)
        if not message.HasField("literal"):
            return message, None
        return message, literal_from_proto(message.literal, max_bytes=limit)

    return outcome(read)


def here(kind: type[Any], data: bytes, limit: int | None) -> tuple[object, ...]:
    def read() -> tuple[Any, Literal | None]:
        received = decode_literal_message(kind, data)
        if received.literal is None:
            return received.message, None
        literal = received.literal.read(limit)
        assert literal.shape == received.literal.shape
        return received.message, literal

    return outcome(read)


@settings(max_examples=400, deadline=None)
@example((KINDS[0], b""), None)
@example((KINDS[0], tagged(1, b"")), None)
@example((KINDS[1], tagged(1, literal_to_proto(Literal.token()).SerializeToString())), None)
@given(messages(), st.none() | st.integers(0, 64))
def test_every_form_is_read_as_protobuf_reads_it(
    sent: tuple[type[Any], bytes], limit: int | None
) -> None:
    kind, data = sent
    assert here(kind, data, limit) == officially(kind, data, limit)


@st.composite
def literals(draw: st.DrawFn) -> Literal:
    """Arrays of any type and layout, tuples of them, tokens."""
    literal = draw(arrays_with_bits())
    choice = draw(st.integers(0, 4))
    if choice == 0:
        return Literal.tuple_of([literal, Literal.token(), Literal.tuple_of([literal])])
    if choice == 1 and not literal.shape.layout_or_default.is_padded:
        shape = literal.shape
        dynamic = Shape(
            shape.element_type, shape.dimensions, shape.layout, (True,) * len(shape.dimensions)
        )
        sizes = tuple(draw(st.integers(0, size)) for size in shape.dimensions)
        return Literal(dynamic, literal.value, (), sizes)
    return literal


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(KINDS), literals())
def test_messages_are_the_bytes_protobuf_writes_and_read_back(
    kind: type[Any], literal: Literal
) -> None:
    data = encode_literal_message(others(kind, 3, 2), literal)
    expected = others(kind, 3, 2)
    expected.literal.CopyFrom(literal_to_proto(literal))
    assert data == expected.SerializeToString(deterministic=True)
    received = decode_literal_message(kind, data)
    assert received.literal is not None
    assert received.literal.read() == literal
    received.message.ClearField("literal")
    assert received.message == others(kind, 3, 2)


@given(
    st.lists(st.integers(0, 63), max_size=200).flatmap(
        lambda widths: st.tuples(*(st.integers(0, 2**width) for width in widths))
    )
)
def test_many_varints_are_the_varints_of_each(values: tuple[int, ...]) -> None:
    expected = b"".join(map(encode_varint, values))
    assert encode_varints(np.array(values, np.uint64)) == expected
    if all(value < 2**32 for value in values):
        assert encode_varints(np.array(values, np.uint32)) == expected
