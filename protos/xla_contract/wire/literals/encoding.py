"""Messages that carry a literal, as bytes in one copy.

The bytes are those of protobuf's deterministic serialization. The elements go from the literal's
memory into the message in one copy, in which layouts and padding are applied; integers are encoded
a block at a time first, since their length is not known before.
"""

import dataclasses
import functools
import io
import sys
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from google.protobuf.message import Message

from xla_contract.errors import ResourceExhaustedError
from xla_contract.stubs import xla_data_pb2
from xla_contract.types.element_type import ElementType
from xla_contract.types.literal import Array, Literal, storage
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.linear_memory import write_linear_memory
from xla_contract.wire.literals.payload import PAYLOAD_FIELDS
from xla_contract.wire.literals.value_proto import is_plain
from xla_contract.wire.shape_proto import shape_to_proto
from xla_contract.wire.varint import BLOCK, LENGTH_DELIMITED, encode_varint, encode_varints
from xla_host import allocator

MAX_MESSAGE_BYTES = 2**31 - 1
"""Largest size of one protobuf message, in bytes."""

_LITERAL = xla_data_pb2.LiteralProto.DESCRIPTOR.fields_by_name


def encode_literal_message(message: Message, literal: Literal) -> bytes:
    """Return the bytes of `message` with `literal` in its unset field of that name.

    Raises:
        ResourceExhaustedError: They would exceed MAX_MESSAGE_BYTES; nothing is copied then.
    """
    number = message.DESCRIPTOR.fields_by_name["literal"].number
    pieces = _pieces(literal)
    rest = message.SerializeToString(deterministic=True)
    return _joined([*_framed(number, pieces), rest], literal.shape)


_MAX_VARINT_BYTES = 10
"""Bytes of the longest varint; a negative int32 takes as many, too."""


def max_encoded_bytes(shape: Shape) -> int:
    """Return the largest size that the elements of such a literal can have in a message."""
    if not shape.is_array:
        return sum(map(max_encoded_bytes, shape.tuple_shapes))
    if shape.element_type is ElementType.PRED:
        return shape.byte_size
    if PAYLOAD_FIELDS[shape.element_type].packed != "varint":
        return shape.byte_size
    return shape.byte_size // shape.element_type.byte_width * _MAX_VARINT_BYTES


_SMALL_BYTES = 256
"""Bytes up to which copying is faster than making a view; tuples have thousands of numbers."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Unwritten:
    """An array whose memory is not as it is sent: it is laid out where it goes."""

    literal: Literal

    def __len__(self) -> int:
        return self.literal.shape.byte_size


_Piece: TypeAlias = bytes | memoryview | _Unwritten


def _pieces(literal: Literal) -> list[_Piece]:
    """Return the parts of a LiteralProto of the literal, in the order of its fields."""
    shape = literal.shape
    if not shape.is_array:
        pieces: list[_Piece] = [_tagged(1, _serialized_shape(shape))]
        for element in literal.elements:
            pieces += _framed(_LITERAL["tuple_literals"].number, _pieces(element))
        return pieces
    field = PAYLOAD_FIELDS[shape.element_type]
    pieces = [_array_shape_field(shape)]
    payload = _varints(literal) if field.packed == "varint" else _memory(literal)
    sizes = _sizes_field(literal.dynamic_sizes)
    is_before = field.number > _LITERAL["dynamic_sizes"].number
    if is_before:
        pieces.append(sizes)
    # protobuf omits an empty list.
    if any(map(len, payload)):
        pieces += _framed(field.number, payload)
    if not is_before:
        pieces.append(sizes)
    return pieces


def _memory(literal: Literal) -> list[_Piece]:
    """The elements of fixed width, as a view where their memory is as it is sent."""
    shape = literal.shape
    if shape.byte_size <= _SMALL_BYTES and is_plain(shape):
        return [literal.value.tobytes()]
    layout = shape.layout_or_default
    array = literal.value.transpose(layout.major_to_minor)
    is_as_sent = array.flags.c_contiguous and not layout.is_padded
    is_as_sent &= shape.element_type.bit_width >= 8
    is_as_sent &= sys.byteorder == "little" or shape.element_type.byte_width == 1
    if not is_as_sent:
        return [_Unwritten(literal)]
    return [array.reshape(-1).view(np.uint8).data]


def _varints(literal: Literal) -> list[_Piece]:
    """The elements of a type that protobuf packs as varints."""
    if literal.shape.element_type is ElementType.PRED:
        # Whatever is true is one.
        if literal.value.size and literal.value.view(np.uint8).max() > 1:
            array = literal.value.view(np.uint8) != 0
            literal = Literal(literal.shape, array, (), literal.dynamic_sizes)
        return _memory(literal)
    pieces: list[_Piece] = []
    size = 0
    for values in _blocks(literal):
        if literal.shape.element_type is ElementType.S32:
            # A negative int32 goes over the wire sign-extended to 64 bits.
            values = values.view(np.int32).astype(np.int64).view(np.uint64)
        encoded = encode_varints(values)
        size += len(encoded)
        _check_size(size, literal.shape)
        pieces.append(encoded)
    return pieces


def _blocks(literal: Literal) -> Iterator[Array]:
    """The elements as unsigned integers in memory order, in one dimension, some at a time."""
    layout = literal.shape.layout_or_default
    if layout.is_padded:
        array = literal.linear_memory()
    else:
        array = literal.value.transpose(layout.major_to_minor)
    for part in _parts(array):
        yield storage(part, literal.shape.element_type).reshape(-1)


def _parts(array: Array) -> Iterator[Array]:
    """The array cut along its first dimensions into parts of some BLOCKs at most."""
    if array.size <= 4 * BLOCK:
        if array.size:
            yield array
        return
    row = array.size // len(array)
    step = max(1, 4 * BLOCK // row)
    for start in range(0, len(array), step):
        part = array[start : start + step]
        if row > 4 * BLOCK:
            yield from _parts(part[0])
        else:
            yield part


_LARGE_BYTES = 4 << 20
"""Messages from this size on, in bytes, get resident memory before they are written."""

_COPIES = 2
"""Number of blocks that are made resident: the message, and the copy of it that gRPC makes."""

_BLOCK_HEAD = 256
"""Overhead of a block of memory beside the message in it, in bytes, at most."""


def _joined(pieces: list[_Piece], shape: Shape) -> bytes:
    size = sum(map(len, pieces))
    _check_size(size, shape)
    if size >= _LARGE_BYTES:
        allocator.make_resident(size + _BLOCK_HEAD, _COPIES)
    written = [piece for piece in pieces if not isinstance(piece, _Unwritten)]
    if len(written) == len(pieces):
        return b"".join(written)
    # Its content is handed on without a copy.
    stream = io.BytesIO()
    stream.seek(size - 1)
    stream.write(b"\0")
    stream.seek(0)
    with stream.getbuffer() as buffer:
        at = 0
        for piece in pieces:
            into = buffer[at : at + len(piece)]
            if isinstance(piece, _Unwritten):
                _write(piece.literal, np.frombuffer(into, np.uint8))
            else:
                into[:] = piece
            into.release()
            at += len(piece)
    return stream.getvalue()


def _write(literal: Literal, memory: Array) -> None:
    write_linear_memory(literal, memory)


def _check_size(size: int, shape: Shape) -> None:
    if size > MAX_MESSAGE_BYTES:
        raise ResourceExhaustedError(
            f"a message may take {MAX_MESSAGE_BYTES} bytes, got {size} or more for a literal of "
            f"{shape}",
            hint="Slice the value and transfer the parts.",
        )


def _framed(number: int, pieces: list[_Piece]) -> list[_Piece]:
    """A field of these pieces, with tag and length before them."""
    return [_tag(number) + encode_varint(sum(map(len, pieces))), *pieces]


def _tagged(number: int, data: bytes) -> bytes:
    return _tag(number) + encode_varint(len(data)) + data


@functools.lru_cache(maxsize=64)
def _tag(number: int) -> bytes:
    return encode_varint(number << 3 | LENGTH_DELIMITED)


@functools.lru_cache(maxsize=1024)
def _array_shape_field(shape: Shape) -> bytes:
    return _tagged(1, _serialized_shape(shape))


def _serialized_shape(shape: Shape) -> bytes:
    return shape_to_proto(shape).SerializeToString(deterministic=True)


def _sizes_field(sizes: tuple[int, ...]) -> bytes:
    if not sizes:
        return b""
    return xla_data_pb2.LiteralProto(dynamic_sizes=sizes).SerializeToString(deterministic=True)
