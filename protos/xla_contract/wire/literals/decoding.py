"""Messages that carry a literal, read without a copy of its elements.

The usual form is scanned by hand, and the literal is a view of the bytes: `literal` and its shape
once, the payload once and in one piece, no tuple, no unknown field, all lengths inside, one value
per element. Varints are counted, and become an array on request.

protobuf's own parser decides on all other bytes, unless the parsed message would be too large
(`parsed_size`). Other legal forms give the same literal, illegal ones the same errors.
"""

import dataclasses
import functools
import sys
from collections.abc import Iterator
from typing import Generic, TypeVar

import numpy as np
from google.protobuf.message import DecodeError, Message

from xla_contract.errors import InvalidArgumentError, ResourceExhaustedError, XlaError
from xla_contract.stubs import xla_data_pb2
from xla_contract.types.index import memory_element_count
from xla_contract.types.literal import Array, Literal
from xla_contract.types.shape import UNBOUNDED, Shape
from xla_contract.wire.literals.parsed_size import check_parse_size
from xla_contract.wire.literals.payload import PAYLOAD_FIELDS
from xla_contract.wire.literals.proto import literal_from_proto
from xla_contract.wire.literals.value_proto import literal_of_memory
from xla_contract.wire.shape_proto import shape_from_proto
from xla_contract.wire.varint import (
    LENGTH_DELIMITED,
    are_varints,
    count_varints,
    encode_varint,
    read_varint,
)
from xla_host.aligned import aligned_empty

M = TypeVar("M", bound=Message)

_FIELDS = xla_data_pb2.LiteralProto.DESCRIPTOR.fields_by_name
_SHAPE = _FIELDS["shape"].number
_SIZES = _FIELDS["dynamic_sizes"].number

_PARSED_BYTES = 1 << 16
"""Bytes of varints that protobuf parses at a time: the numbers, eight times as many bytes, stay
inside the cache."""

_LONGEST_VARINT = 5
_MAX_FIELDS = 64
_MAX_SMALL_BYTES = 4096
_MAX_SHAPE_BYTES = 128
"""Limits of the usual form: bytes of a varint, number of fields, bytes of all small fields, and
bytes of the shape, which is then too short to nest deeper than any parser allows."""


class UndecodedLiteral:
    """A literal in a received message: already read, or still to be checked."""

    __slots__ = ("_received",)

    def __init__(self, received: "Literal | _Integers | xla_data_pb2.LiteralProto") -> None:
        self._received = received

    @property
    def is_usual(self) -> bool:
        """True if the message has the usual form, for which no message object is made."""
        return isinstance(self._received, Literal | _Integers)

    @property
    def shape(self) -> Shape:
        """The shape that the message states; raises InvalidArgumentError without one."""
        received = self._received
        if isinstance(received, Literal | _Integers):
            return received.shape
        if not received.HasField("shape"):
            raise InvalidArgumentError("a literal must have a shape, got none")
        return shape_from_proto(received.shape)

    def read(self, max_bytes: int | None = None) -> Literal:
        """Return the literal, which may share the memory of the received bytes, at any alignment.

        Args:
            max_bytes: Bound of the values' size.

        Raises:
            InvalidArgumentError: The message is malformed; see `literal_from_proto`.
            ResourceExhaustedError: The values take more than `max_bytes`.
        """
        received = self._received
        if not isinstance(received, Literal | _Integers):
            return literal_from_proto(received, max_bytes=max_bytes)
        shape = received.shape
        if max_bytes is not None and shape.byte_size > max_bytes:
            raise ResourceExhaustedError(
                f"literal {shape}: values may take {max_bytes} bytes, got {shape.byte_size}"
            )
        return received if isinstance(received, Literal) else received.read()


@dataclasses.dataclass(frozen=True, slots=True)
class LiteralMessage(Generic[M]):
    """A message and the literal in it, which `message` itself may lack."""

    message: M
    literal: UndecodedLiteral | None


def decode_literal_message(kind: type[M], data: bytes) -> LiteralMessage[M]:
    """Return the message of a kind that has a field `literal`.

    Raises:
        DecodeError: The bytes are malformed.
        ResourceExhaustedError: The parsed message would be too large; see `check_parse_size`.
    """
    try:
        return _scan(kind, data)
    except (_UnusualError, DecodeError, XlaError):
        pass
    check_parse_size(kind, data)
    message = kind.FromString(data)
    literal = UndecodedLiteral(message.literal) if message.HasField("literal") else None  # type: ignore[attr-defined]
    return LiteralMessage(message, literal)


class _UnusualError(Exception):
    """The bytes are not of the usual form; they may be legal or not."""


def _scan(kind: type[M], data: bytes) -> LiteralMessage[M]:
    fields = kind.DESCRIPTOR.fields_by_number
    number = kind.DESCRIPTOR.fields_by_name["literal"].number
    literal: Literal | _Integers | None = None
    rest = []
    for field in _fields(data, 0, len(data)):
        if field.number != number:
            if field.number not in fields:
                raise _UnusualError
            rest.append((field.start, field.end))
        elif literal is not None or field.wire_type != LENGTH_DELIMITED:
            raise _UnusualError
        else:
            literal = _literal(data, field.value, field.end)
    if literal is None:
        raise _UnusualError
    return LiteralMessage(kind.FromString(_small(data, rest)), UndecodedLiteral(literal))


def _literal(data: bytes, start: int, end: int) -> "Literal | _Integers":
    shape: Shape | None = None
    payload: _Field | None = None
    sizes = []
    for field in _fields(data, start, end):
        if field.number == _SIZES:
            sizes.append((field.start, field.end))
        elif field.wire_type != LENGTH_DELIMITED:
            raise _UnusualError
        elif field.number == _SHAPE:
            if shape is not None or field.end - field.value > _MAX_SHAPE_BYTES:
                raise _UnusualError
            shape = _shape(data[field.value : field.end])
        elif payload is None:
            payload = field
        else:
            raise _UnusualError
    if shape is None or sys.byteorder != "little":
        raise _UnusualError
    if payload is None:
        memory = np.empty(0, np.uint8)
    elif payload.number == PAYLOAD_FIELDS[shape.element_type].number:
        memory = np.frombuffer(data, np.uint8, payload.end - payload.value, payload.value)
    else:
        raise _UnusualError
    dynamic_sizes: tuple[int, ...] = ()
    if sizes:
        parsed = xla_data_pb2.LiteralProto.FromString(_small(data, sizes))
        dynamic_sizes = tuple(parsed.dynamic_sizes)
    if PAYLOAD_FIELDS[shape.element_type].packed != "varint" or shape.element_type.byte_width == 1:
        return literal_of_memory(shape, memory, dynamic_sizes)
    if dynamic_sizes or not _are_integers(memory, memory_element_count(shape)):
        raise _UnusualError
    return _Integers(shape, memory)


@functools.lru_cache(maxsize=1024)
def _shape(data: bytes) -> Shape:
    """The shape of an array that has a layout and bounds; raises _UnusualError for others."""
    shape = shape_from_proto(xla_data_pb2.ShapeProto.FromString(data))
    if not shape.is_array or shape.layout is None or UNBOUNDED in shape.dimensions:
        raise _UnusualError
    return shape


def _are_integers(encoded: Array, count: int) -> bool:
    """Return whether the bytes are `count` varints."""
    if encoded.size == count:
        return not count or bool(encoded.max() <= 0x7F)
    return count_varints(encoded) == count and are_varints(encoded)


@dataclasses.dataclass(frozen=True, slots=True)
class _Integers:
    """An array whose elements are varints; the message has as many as its shape states."""

    shape: Shape
    encoded: Array

    def read(self) -> Literal:
        """The literal, of new memory: its elements may take eight times the bytes received."""
        wide = aligned_empty((memory_element_count(self.shape),), self.shape.element_type.dtype)
        if wide.size == self.encoded.size:
            wide[...] = self.encoded
        else:
            self._parse(wide)
        return literal_of_memory(self.shape, wide.view(np.uint8))

    def _parse(self, wide: Array) -> None:
        """Let protobuf parse the varints, in blocks so that its memory stays small."""
        field = PAYLOAD_FIELDS[self.shape.element_type]
        tag = encode_varint(field.number << 3 | LENGTH_DELIMITED)
        at = done = 0
        while at < self.encoded.size:
            end = min(at + _PARSED_BYTES, self.encoded.size)
            while self.encoded[end - 1] > 0x7F:
                end -= 1
            header = tag + encode_varint(end - at)
            proto = xla_data_pb2.LiteralProto.FromString(header + self.encoded[at:end].tobytes())
            values = np.asarray(getattr(proto, field.name))
            wide[done : done + values.size] = values
            at, done = end, done + values.size


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    """A field in the bytes of a message: where it starts, where its value does, where it ends."""

    number: int
    wire_type: int
    start: int
    value: int
    end: int


def _fields(data: bytes, start: int, end: int) -> Iterator[_Field]:
    """The fields between two positions; raises _UnusualError if protobuf must decide."""
    at = start
    for _ in range(_MAX_FIELDS):
        if at == end:
            return
        try:
            tag, value = read_varint(data, at, end, _LONGEST_VARINT)
            number, wire_type = tag >> 3, tag & 7
            if wire_type == LENGTH_DELIMITED:
                size, value = read_varint(data, value, end, _LONGEST_VARINT)
                stop = value + size
            elif wire_type == 0:
                _, stop = read_varint(data, value, end, _LONGEST_VARINT)
            else:
                raise _UnusualError
        except IndexError:
            raise _UnusualError from None
        if stop > end or not number:
            raise _UnusualError
        yield _Field(number, wire_type, at, value, stop)
        at = stop
    raise _UnusualError


def _small(data: bytes, spans: list[tuple[int, int]]) -> bytes:
    if sum(stop - start for start, stop in spans) > _MAX_SMALL_BYTES:
        raise _UnusualError
    return b"".join([data[start:stop] for start, stop in spans])
