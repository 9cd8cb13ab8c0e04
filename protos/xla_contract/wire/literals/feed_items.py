"""Items of feeds, many to a message, without a message object each.

The written bytes are those of protobuf for FeedItems in the second field of an InfeedRequest or an
OutfeedResponse. Items that are read have been parsed by protobuf.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from xla_contract.stubs import xla_extension_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.value_proto import is_plain, memory_of, value_from_proto
from xla_contract.wire.shape_proto import shape_from_proto, shape_to_proto
from xla_contract.wire.varint import encode_varint, encode_varints

Buffer = bytes | memoryview

_VALUE_SHAPE = b"\x0a"
_VALUE_DATA = b"\x12"
_VALUE_ELEMENTS = b"\x1a"
_VALUE_DYNAMIC_SIZES = b"\x22"
_ITEM_SEQUENCE = b"\x08"
_ITEM_VALUE = b"\x12"
_ITEMS_ITEM = b"\x0a"
_PART_ITEMS = b"\x12"
"""Tags of length-delimited fields; a test holds them to the numbers of the messages."""


class FeedItemEncoder:
    """Writes the values of one stream; `declared` is the shape its start states, if any.

    A value of that shape, layout included, is written without it.
    """

    def __init__(self, declared: Shape | None = None) -> None:
        self._declared = declared
        self._last: tuple[Shape, bytes] | None = None
        self._plain: Shape | None = None
        self._plain_head = b""

    def value(self, literal: Literal) -> bytes:
        """A Value, serialized; the literal's memory is copied once."""
        shape = literal.shape
        if shape is self._plain or shape == self._plain:
            memory = np.ascontiguousarray(literal.value).reshape(-1).view(np.uint8)
            return b"".join((self._plain_head, memory.data))
        if shape.is_array and is_plain(shape) and shape.byte_size:
            self._plain = shape
            length = encode_varint(shape.byte_size)
            self._plain_head = b"".join((*self._shape_field(shape), _VALUE_DATA, length))
        return b"".join((*self._shape_field(literal.shape), *_fields(literal)))

    def _shape_field(self, shape: Shape) -> tuple[Buffer, ...]:
        if shape is self._declared or shape == self._declared:
            return ()
        if self._last is None or self._last[0] != shape:
            self._last = shape, shape_to_proto(shape).SerializeToString()
        data = self._last[1]
        return _VALUE_SHAPE, encode_varint(len(data)), data


def items_part(items: Iterable[tuple[int, bytes]]) -> bytes:
    """An InfeedRequest or an OutfeedResponse with these items: numbers and serialized Values."""
    pieces: list[Buffer] = []
    size = 0
    for sequence, value in items:
        head = b"".join(
            (_ITEM_SEQUENCE, encode_varint(sequence), _ITEM_VALUE, encode_varint(len(value)))
        )
        length = encode_varint(len(head) + len(value))
        pieces += (_ITEMS_ITEM, length, head, value)
        size += 1 + len(length) + len(head) + len(value)
    return b"".join((_PART_ITEMS, encode_varint(size), *pieces))


class FeedItemDecoder:
    """Reads the values of one stream; `declared` is the shape its start states, if any."""

    def __init__(self, declared: Shape | None = None) -> None:
        self._declared = declared
        self._declared_proto = None if declared is None else shape_to_proto(declared)
        self._last: tuple[bytes, Shape] | None = None
        self._plain: tuple[Shape | None, bool] = (None, False)

    def literal(self, value: xla_extension_pb2.Value) -> Literal:
        """Return the literal of a value, which shares the memory of the message's bytes.

        Raises:
            InvalidArgumentError: The value is malformed; see `value_from_proto`.
        """
        shape = self._shape_of(value)
        if shape is not None and self._is_plain(shape):
            data = value.data
            if len(data) == shape.byte_size and not (value.elements or value.dynamic_sizes):
                array = np.frombuffer(data, shape.element_type.dtype)
                return Literal(shape, array.reshape(shape.dimensions))
        if self._declared_proto is not None and not value.HasField("shape"):
            value.shape.CopyFrom(self._declared_proto)
        return value_from_proto(value)

    def _shape_of(self, value: xla_extension_pb2.Value) -> Shape | None:
        if not value.HasField("shape"):
            return self._declared
        key = value.shape.SerializeToString()
        if self._last is None or self._last[0] != key:
            self._last = key, shape_from_proto(value.shape)
        return self._last[1]

    def _is_plain(self, shape: Shape) -> bool:
        if self._plain[0] is not shape:
            self._plain = shape, shape.is_array and is_plain(shape)
        return self._plain[1]


def data_byte_size(value: xla_extension_pb2.Value) -> int:
    """Bytes of all data in a value: what it uses of a credit."""
    return len(value.data) + sum(data_byte_size(element) for element in value.elements)


def array_count(value: xla_extension_pb2.Value) -> int:
    """The arrays in a value, at least one: what it uses of a credit."""
    return max(1, sum(array_count(element) for element in value.elements))


def _fields(literal: Literal) -> Iterator[Buffer]:
    """The fields of a Value after its shape."""
    if literal.shape.is_array:
        memory = memory_of(literal)
        if memory.size:
            yield from (_VALUE_DATA, encode_varint(memory.size), memory.data)
        if literal.dynamic_sizes:
            sizes = encode_varints(np.array(literal.dynamic_sizes, np.uint64))
            yield from (_VALUE_DYNAMIC_SIZES, encode_varint(len(sizes)), sizes)
    for element in literal.elements:
        # The shape of the tuple has the shapes of its elements.
        inside = b"".join(_fields(element))
        yield from (_VALUE_ELEMENTS, encode_varint(len(inside)), inside)
