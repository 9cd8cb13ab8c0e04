"""Literals as LiteralProto messages, both ways without a step per element.

Elements are written in the memory order of the literal's own layout, padding included. The
field depends on the element type: packed numbers where protobuf has the type, bytes for the
others (one byte an element, or two in little-endian order). Types under a byte fill the low
bits of theirs.

Reading checks a message before it allocates anything for it: all sizes come from the message
that is already here, and a shape that claims more than the payload holds is refused.
"""

from typing import Any

import numpy as np

from xla_contract.errors import InvalidArgumentError, ResourceExhaustedError, XlaError
from xla_contract.stubs import xla_data_pb2
from xla_contract.types.element_type import ElementType
from xla_contract.types.index import memory_element_count
from xla_contract.types.literal import Array, Literal, storage
from xla_contract.types.shape import UNBOUNDED, Shape
from xla_contract.wire.literals.payload import PAYLOAD_FIELDS, PayloadField
from xla_contract.wire.shape_proto import shape_from_proto, shape_to_proto
from xla_contract.wire.varint import LENGTH_DELIMITED, encode_varint, encode_varints


def literal_to_proto(literal: Literal) -> xla_data_pb2.LiteralProto:
    """The message for a literal; the shapes of tuple elements are repeated in them."""
    proto = xla_data_pb2.LiteralProto()
    _fill(proto, literal)
    return proto


def literal_from_proto(
    proto: xla_data_pb2.LiteralProto, *, max_bytes: int | None = None
) -> Literal:
    """Return the literal in a message.

    Args:
        proto: The message.
        max_bytes: Bound of the values' size.

    Raises:
        InvalidArgumentError: Shape or layout is missing, the payload is in another field than the
            element type's or has not one value per element in memory, or tuple elements do not have
            the shapes that the tuple states.
        ResourceExhaustedError: The values take more than `max_bytes`.
    """
    if not proto.HasField("shape"):
        raise InvalidArgumentError("a literal must have a shape, got none")
    shape = shape_from_proto(proto.shape)
    if max_bytes is not None and shape.byte_size > max_bytes:
        raise ResourceExhaustedError(
            f"literal {shape}: values may take {max_bytes} bytes, got {shape.byte_size}"
        )
    return _read(proto, shape)


def _fill(proto: xla_data_pb2.LiteralProto, literal: Literal) -> None:
    shape = literal.shape
    proto.shape.CopyFrom(shape_to_proto(shape))
    for element in literal.elements:
        _fill(proto.tuple_literals.add(), element)
    if not shape.is_array:
        return
    proto.dynamic_sizes.extend(literal.dynamic_sizes)
    field = PAYLOAD_FIELDS[shape.element_type]
    bits = storage(literal.linear_memory(), shape.element_type)
    little = bits.astype(bits.dtype.newbyteorder("<"), copy=False)
    if not field.packed:
        setattr(proto, field.name, little.tobytes())
    elif little.size:
        # Parsing packed wire bytes fills a repeated field about 100 times faster than extend().
        payload = little.data.cast("B") if field.packed == "fixed" else _varints(literal, little)
        tag = encode_varint(field.number << 3 | LENGTH_DELIMITED)
        proto.MergeFromString(b"".join((tag, encode_varint(len(payload)), payload)))


def _varints(literal: Literal, bits: Array) -> bytes:
    if literal.shape.element_type is ElementType.S32:
        # A negative int32 goes over the wire sign-extended to 64 bits.
        bits = bits.view(np.int32).astype(np.int64).view(np.uint64)
    return encode_varints(bits)


def _read(proto: xla_data_pb2.LiteralProto, shape: Shape) -> Literal:
    if shape.is_tuple:
        return _read_tuple(proto, shape)
    if shape.is_token:
        _refuse_other_fields(proto, shape, "")
        return Literal.token()
    if not shape.is_array:
        raise InvalidArgumentError(f"a literal must be an array, tuple or token, got {shape}")
    return _read_array(proto, shape)


def _read_tuple(proto: xla_data_pb2.LiteralProto, shape: Shape) -> Literal:
    _refuse_other_fields(proto, shape, "tuple_literals")
    if len(proto.tuple_literals) != len(shape.tuple_shapes):
        raise InvalidArgumentError(
            f"literal {shape}: tuple_literals must have one literal per element, got "
            f"{len(proto.tuple_literals)} for {len(shape.tuple_shapes)} elements"
        )
    elements = []
    for number, (part, declared) in enumerate(
        zip(proto.tuple_literals, shape.tuple_shapes, strict=True)
    ):
        if not part.HasField("shape"):
            raise InvalidArgumentError(
                f"literal {shape}: an element must repeat its shape, got none in element {number}"
            )
        own = shape_from_proto(part.shape)
        if own != declared and own.without_layout() != declared.without_layout():
            raise InvalidArgumentError(
                f"literal {shape}: an element must have the shape the tuple says, got {own} in "
                f"element {number} declared as {declared}"
            )
        elements.append(_read(part, own))
    return Literal.tuple_of(elements)


def require_no_excess(shape: Shape, name: str, count: int) -> None:
    """Raise InvalidArgumentError unless a literal of a shape may have `count` entries in a field.

    Raises:
        InvalidArgumentError: There are too many, or the field is not the element type's.
    """
    if not shape.is_array:
        raise _misplaced(shape, "tuple_literals" if shape.is_tuple else "no field", name)
    _require_extent(shape)
    field = PAYLOAD_FIELDS[shape.element_type]
    if name != field.name:
        raise _misplaced(shape, field.name, name)
    wanted = memory_element_count(shape)
    if count > wanted * field.per_element:
        raise _miscounted(shape, field, count, wanted)


def _read_array(proto: xla_data_pb2.LiteralProto, shape: Shape) -> Literal:
    _require_extent(shape)
    field = PAYLOAD_FIELDS[shape.element_type]
    _refuse_other_fields(proto, shape, field.name)
    payload = getattr(proto, field.name)
    count = memory_element_count(shape)
    if len(payload) != count * field.per_element:
        raise _miscounted(shape, field, len(payload), count)
    try:
        return Literal.from_linear_memory(
            shape, _decode(payload, field, shape.element_type), tuple(proto.dynamic_sizes)
        )
    except XlaError as error:
        raise InvalidArgumentError(f"literal {shape}: {error.message}") from error


def _decode(payload: Any, field: PayloadField, element_type: ElementType) -> Array:
    dtype = element_type.dtype
    if field.packed:
        entries = np.asarray(payload, dtype=element_type.real_component.dtype)
        return entries.view(dtype)
    bits = np.frombuffer(payload, dtype=f"<u{dtype.itemsize}")
    if element_type.bit_width < 8:
        bits = bits & np.uint8((1 << element_type.bit_width) - 1)
    return bits.astype(bits.dtype.newbyteorder("="), copy=False).view(dtype)


def _payload_text(field: PayloadField, length: int) -> str:
    if not field.packed and field.per_element > 1:
        return f"{length} bytes of {field.name} ({field.per_element} an element)"
    if field.per_element > 1:
        return f"{length} {field.name} ({field.per_element} an element)"
    return f"{length} {field.name}"


def _require_extent(shape: Shape) -> None:
    if shape.layout is None:
        raise InvalidArgumentError(f"literal {shape}: the shape must have a layout, got none")
    if UNBOUNDED in shape.dimensions:
        raise InvalidArgumentError(f"literal {shape}: every dimension must be bounded, got ?")


def _miscounted(shape: Shape, field: PayloadField, length: int, count: int) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"literal {shape}: payload must hold one value per element, got "
        f"{_payload_text(field, length)} for {count} elements"
    )


def _misplaced(shape: Shape, wanted: str, name: str) -> InvalidArgumentError:
    if name == "sparse_indices":
        return InvalidArgumentError(f"literal {shape}: must be dense, got sparse_indices")
    return InvalidArgumentError(f"literal {shape}: payload must be in {wanted}, got {name}")


def _refuse_other_fields(proto: xla_data_pb2.LiteralProto, shape: Shape, payload_name: str) -> None:
    for field, _ in proto.ListFields():
        if field.name not in ("shape", "dynamic_sizes", payload_name):
            raise _misplaced(shape, payload_name or "no field", field.name)
