"""Size of a protobuf message in memory, computed from its bytes before it is parsed.

A parsed message may be far larger than on the wire: a varint of one byte becomes a number of eight,
two bytes become an empty message of hundreds. The bytes are walked once; packed numbers are counted
by numpy.

Sources: the encoding specification of protobuf; sizes of fields as in upb.
"""

import dataclasses
import functools
from typing import Any, cast

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from xla_contract.errors import InvalidArgumentError, ResourceExhaustedError
from xla_contract.stubs import xla_data_pb2
from xla_contract.wire.literals.proto import require_no_excess
from xla_contract.wire.shape_proto import shape_from_proto
from xla_contract.wire.varint import LENGTH_DELIMITED, VARINT, count_varints, read_varint

MULTIPLE = 32
"""Bytes that a message may take in memory per byte on the wire, in addition to ALLOWANCE.

Programs take 10 to 40, most if their instructions are short.
"""

ALLOWANCE = 64 << 20
"""Bytes that any message may take in memory."""

MAX_FIELDS = 1 << 22
"""Number of fields that a message may have on the wire, nested messages included."""

SMALL_BYTES = 1 << 17
"""Messages up to this size are not checked: whatever they contain, they stay small in memory."""

_LITERAL: Any = xla_data_pb2.LiteralProto.DESCRIPTOR
_SHAPE: Any = xla_data_pb2.ShapeProto.DESCRIPTOR
_SIZES = _LITERAL.fields_by_name["dynamic_sizes"].number
_WIDTHS = {1: 8, 5: 4}
"""Wire types of fixed width and their bytes. Fields inside groups are walked like any others."""

_KNOWN, _KNOWN_BYTES = 4096, 256
"""Number of shapes whose size in memory is cached, and the bytes of the largest: a program repeats
a few shapes."""

_FEW = 64
"""Largest field, in bytes, whose varints Python counts: that takes less than the call of numpy."""


def check_parse_size(kind: type[Message], data: bytes) -> None:
    """Raise unless the bytes of a message of a kind may be given to protobuf's parser.

    Raises ResourceExhaustedError if it would take more than MULTIPLE times the bytes and
    ALLOWANCE, or has more than MAX_FIELDS fields, and InvalidArgumentError if a literal in it
    has more integers than its shape states, or no shape that states it. Malformed bytes are left to
    the parser, which takes no more for them than for what stands before the fault.
    """
    if len(data) > SMALL_BYTES:
        _walk(_descriptor(kind), data)


def _descriptor(kind: type[Message]) -> Descriptor:
    descriptor: Any = kind.DESCRIPTOR
    return cast(Descriptor, descriptor)


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    """Memory of one occurrence of a field, in bytes."""

    name: str
    inner: Descriptor | None
    """The kind of a message."""
    each: int
    """Bytes for each value beyond those of the wire; 0 where a later value replaces it."""
    is_varint: bool
    """True if the field may be packed varints, whose number must be counted."""
    is_fixed: bool
    """True if the field may be packed numbers of a fixed size, as large as in memory."""
    is_repeated: bool


_NUMBERS = {
    FieldDescriptor.CPPTYPE_INT32: 4,
    FieldDescriptor.CPPTYPE_UINT32: 4,
    FieldDescriptor.CPPTYPE_ENUM: 4,
    FieldDescriptor.CPPTYPE_FLOAT: 4,
    FieldDescriptor.CPPTYPE_BOOL: 1,
    FieldDescriptor.CPPTYPE_INT64: 8,
    FieldDescriptor.CPPTYPE_UINT64: 8,
    FieldDescriptor.CPPTYPE_DOUBLE: 8,
}
_FIXED = {
    getattr(FieldDescriptor, f"TYPE_{name}")
    for name in ("FLOAT", "DOUBLE", "FIXED32", "FIXED64", "SFIXED32", "SFIXED64")
}
_POINTER, _STRING, _MESSAGE_HEADER, _ENTRY_OF_MAP = 8, 16, 32, 48
"""Bytes of parts of messages in the memory of protobuf's parser, upb."""
_UNKNOWN = _Field("", None, _STRING, False, False, True)


@functools.cache
def _fields_of(kind: Descriptor) -> dict[int, _Field]:
    return {field.number: _field(field) for field in kind.fields}


@functools.cache
def _size_of(kind: Descriptor) -> int:
    """Bytes of an empty message, which include those of its fields, set or not."""
    sizes = (
        _POINTER if field.is_repeated else _NUMBERS.get(field.cpp_type, _STRING)
        for field in kind.fields
    )
    return _MESSAGE_HEADER + sum(sizes)


def _field(field: FieldDescriptor) -> _Field:
    inner, is_repeated = field.message_type, field.is_repeated
    if inner is not None:
        extra = _ENTRY_OF_MAP if inner.GetOptions().map_entry else _POINTER
        return _Field(field.name, inner, _size_of(inner) + extra, False, False, is_repeated)
    number = _NUMBERS.get(field.cpp_type)
    if not is_repeated or number is None:
        return _Field(field.name, None, _STRING if is_repeated else 0, False, False, is_repeated)
    is_fixed = field.type in _FIXED
    return _Field(field.name, None, number, not is_fixed, is_fixed, True)


class _Literal:
    """Fields of a LiteralProto on the wire: its shape, and the number of varints in each field."""

    __slots__ = ("counts", "shape")

    def __init__(self) -> None:
        self.shape: list[bytes] = []
        self.counts: dict[str, int] = {}

    def require_its_size(self) -> None:
        """Raise if there are more numbers than the shape states."""
        if not self.counts:
            return
        if not self.shape:
            raise InvalidArgumentError("a literal must have a shape, got none")
        try:
            shape = shape_from_proto(xla_data_pb2.ShapeProto.FromString(b"".join(self.shape)))
        except DecodeError:
            return  # A malformed message is not parsed.
        for name, count in self.counts.items():
            require_no_excess(shape, name, count)


class _Message:
    """A message during the walk; `before` is the size that was counted when it began."""

    __slots__ = ("before", "end", "fields", "key", "literal", "parts")

    def __init__(self, kind: Descriptor, end: int, before: int, key: bytes | None = None) -> None:
        self.fields = _fields_of(kind)
        self.end = end
        self.before = before
        self.key = key
        """The bytes of a shape, under which it is cached."""
        self.literal = _Literal() if kind is _LITERAL else None
        self.parts: dict[int, _Literal] | None = None
        """Literals in fields that are not repeated: protobuf merges several occurrences."""

    def join(self, part: "_Message", number: int) -> None:
        """Merge the literal of a message in a field that is not repeated."""
        assert part.literal is not None
        if self.parts is None:
            self.parts = {}
        part.literal = self.parts.setdefault(number, part.literal)

    def require_sizes(self, outer: "_Message | None") -> None:
        """Raise if a literal that is complete here has more integers than its shape states."""
        for part in (self.parts or {}).values():
            part.require_its_size()
        literal = self.literal
        if literal is not None and (outer is None or literal not in (outer.parts or {}).values()):
            literal.require_its_size()


def _walk(kind: Descriptor, data: bytes) -> None:
    """Go through the fields as the parser does; what is malformed ends the walk."""
    limit = MULTIPLE * len(data) + ALLOWANCE
    weight = len(data) + _size_of(kind)
    here = _Message(kind, len(data), weight)
    outer: list[_Message] = []
    known: dict[bytes, int] = {}
    at = 0
    for _ in range(MAX_FIELDS):
        while at == here.end:
            here.require_sizes(outer[-1] if outer else None)
            if not outer:
                return
            if here.key is not None and len(known) < _KNOWN:
                known[here.key] = weight - here.before
            here = outer.pop()
        number, wire_type, value, at = _field_at(data, at)
        if at > here.end:
            # protobuf parses the fields before the fault first.
            for message, around in zip([*outer, here], [None, *outer], strict=True):
                message.require_sizes(around)
            return
        field = here.fields.get(number, _UNKNOWN)
        inner, literal = field.inner, here.literal
        if wire_type != LENGTH_DELIMITED:
            count = 1
        elif inner is not None:
            count = 0
            weight += field.each
            key = data[value:at] if inner is _SHAPE and at - value <= _KNOWN_BYTES else None
            if literal is not None and inner is _SHAPE:
                literal.shape.append(data[value:at])
            if key in known:
                weight += known[key]
            else:
                outer.append(here)
                here = _Message(inner, at, weight, key)
                if inner is _LITERAL and not field.is_repeated:
                    outer[-1].join(here, number)
                at = value
        else:
            count = _count(data, value, at) if field.is_varint else 0 if field.is_fixed else 1
        weight += count * field.each
        if literal is not None and field.is_varint and number != _SIZES:
            literal.counts[field.name] = literal.counts.get(field.name, 0) + count
        if weight > limit:
            raise ResourceExhaustedError(
                f"a message of {len(data)} bytes may take {limit} in memory, got more for its "
                f"first {value} bytes"
            )
    raise ResourceExhaustedError(
        f"a message may have {MAX_FIELDS} fields, got more in {len(data)} bytes"
    )


def _field_at(data: bytes, at: int) -> tuple[int, int, int, int]:
    """Return the number and wire type of a field, where its value begins, and where it ends.

    The end is past that of `data` if the field is truncated or malformed.
    """
    try:
        tag, value = read_varint(data, at, len(data))
        wire_type = tag & 7
        if wire_type == LENGTH_DELIMITED:
            size, value = read_varint(data, value, len(data))
            end = value + size
        elif wire_type == VARINT:
            _, end = read_varint(data, value, len(data))
        else:
            end = value + _WIDTHS.get(wire_type, 0)
    except IndexError:
        return 0, 0, at, len(data) + 1
    return tag >> 3, wire_type, value, end


def _count(data: bytes, start: int, stop: int) -> int:
    if stop - start <= _FEW:
        return sum(byte < 0x80 for byte in data[start:stop])
    return count_varints(np.frombuffer(data, np.uint8, stop - start, start))
