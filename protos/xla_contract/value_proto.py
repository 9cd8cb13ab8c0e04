"""Literals as Value messages of xla_extension.proto, both ways: shapes and bare memory."""

import sys
from typing import Any

import numpy as np

from xla_contract.element_type import ElementType
from xla_contract.errors import InvalidArgumentError, ResourceExhaustedError, XlaError
from xla_contract.index import memory_element_count
from xla_contract.literal import Array, Literal
from xla_contract.shape import UNBOUNDED, Shape
from xla_contract.shape_proto import shape_from_proto, shape_to_proto
from xla_contract.stubs import xla_extension_pb2

_IS_LITTLE = sys.byteorder == "little"


def value_to_proto(literal: Literal) -> xla_extension_pb2.Value:
    """The message for a literal; a token has a shape and nothing else."""
    value = xla_extension_pb2.Value(shape=shape_to_proto(literal.shape))
    for element in literal.elements:
        value.elements.append(value_to_proto(element))
    if literal.shape.is_array:
        value.data = memory_of(literal).tobytes()
        value.dynamic_sizes.extend(literal.dynamic_sizes)
    return value


def value_from_proto(value: xla_extension_pb2.Value, *, max_bytes: int | None = None) -> Literal:
    """The literal in a message; its arrays share the memory of the message's bytes.

    Raises InvalidArgumentError when the shape is missing or does not fit the data, the elements or
    the sizes; ResourceExhaustedError when the values take more than `max_bytes`.
    """
    if not value.HasField("shape"):
        raise InvalidArgumentError("a value must have a shape, got none")
    shape = shape_from_proto(value.shape)
    if max_bytes is not None and shape.byte_size > max_bytes:
        raise ResourceExhaustedError(
            f"value {shape}: may take {max_bytes} bytes, got {shape.byte_size}"
        )
    return _read(value, shape)


def memory_of(literal: Literal) -> Array:
    """The bytes of an array as `Value.data` has them: memory order, padded, little-endian.

    One dimension of u8; a view where memory lies so already.
    """
    flat = literal.linear_memory()
    dtype = flat.dtype
    if literal.shape.element_type.bit_width < 8 and dtype != np.bool_:
        mask = np.uint8((1 << literal.shape.element_type.bit_width) - 1)
        return flat.view(np.uint8) & mask
    if not _IS_LITTLE and dtype.itemsize > 1:
        flat = flat.view(_component(dtype)).byteswap()
    return flat.view(np.uint8)


def literal_of_memory(shape: Shape, memory: Array, dynamic_sizes: tuple[int, ...] = ()) -> Literal:
    """The array whose `Value.data` lies in `memory`, one dimension of u8; shares it where it can.

    Raises InvalidArgumentError for a shape that is no array or says no layout or bounds, for a
    number of bytes that is not the shape's, for a PRED that is neither 0 nor 1, and for sizes that
    do not fit.
    """
    require_memory_shape(shape)
    kind = shape.element_type
    size = memory_byte_size(shape)
    if memory.size != size:
        raise InvalidArgumentError(f"value {shape}: data must hold {size} bytes, got {memory.size}")
    if kind is ElementType.PRED and memory.size and memory.max() > 1:
        raise InvalidArgumentError(
            f"value {shape}: bytes of pred must be 0 or 1, got {int(memory.max())}"
        )
    if kind.bit_width < 8 and kind is not ElementType.PRED:
        memory = memory & np.uint8((1 << kind.bit_width) - 1)
    dtype = kind.dtype
    if not _IS_LITTLE and dtype.itemsize > 1:
        memory = memory.view(_component(dtype)).byteswap().view(np.uint8)
    try:
        return Literal.from_linear_memory(shape, memory.view(dtype), dynamic_sizes)
    except XlaError as error:
        raise InvalidArgumentError(f"value {shape}: {error.message}") from error


def memory_byte_size(shape: Shape) -> int:
    """Bytes of `Value.data` for an array of this shape, padding included."""
    return memory_element_count(shape) * shape.element_type.dtype.itemsize


def require_memory_shape(shape: Shape) -> None:
    """Raise InvalidArgumentError unless the shape is an array that says its layout and bounds."""
    if not shape.is_array:
        raise InvalidArgumentError(f"a value with data must be an array, got {shape}")
    if shape.layout is None:
        raise InvalidArgumentError(f"value {shape}: the shape must have a layout, got none")
    if UNBOUNDED in shape.dimensions:
        raise InvalidArgumentError(f"value {shape}: every dimension must be bounded, got ?")


def _component(dtype: "np.dtype[Any]") -> "np.dtype[Any]":
    size = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    return np.dtype(f"u{size}")


def _read(value: xla_extension_pb2.Value, shape: Shape) -> Literal:
    if shape.is_array:
        if value.elements:
            raise InvalidArgumentError(f"value {shape}: an array must have no elements")
        memory = np.frombuffer(value.data, np.uint8)
        return literal_of_memory(shape, memory, tuple(value.dynamic_sizes))
    if value.data or value.dynamic_sizes:
        raise InvalidArgumentError(f"value {shape}: only an array has data and dynamic_sizes")
    if shape.is_token and not value.elements:
        return Literal.token()
    if not shape.is_tuple:
        raise InvalidArgumentError(f"a value must be an array, tuple or token, got {shape}")
    if len(value.elements) != len(shape.tuple_shapes):
        raise InvalidArgumentError(
            f"value {shape}: there must be one element for each of the shape, got "
            f"{len(value.elements)} for {len(shape.tuple_shapes)}"
        )
    elements = []
    for number, (part, declared) in enumerate(zip(value.elements, shape.tuple_shapes, strict=True)):
        own = shape_from_proto(part.shape) if part.HasField("shape") else declared
        if own != declared and own.without_layout() != declared.without_layout():
            raise InvalidArgumentError(
                f"value {shape}: an element must have the shape the tuple says, got {own} in "
                f"element {number} declared as {declared}"
            )
        elements.append(_read(part, own))
    return Literal.tuple_of(elements)
