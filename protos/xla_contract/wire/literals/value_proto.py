"""Literals as Value messages of xla_extension.proto, both ways: shapes and bare memory."""

import dataclasses
import functools
import sys
from typing import Any

import numpy as np

from xla_contract.errors import InvalidArgumentError, ResourceExhaustedError, XlaError
from xla_contract.stubs import xla_data_pb2, xla_extension_pb2
from xla_contract.types.element_type import ElementType
from xla_contract.types.literal import Array, Literal
from xla_contract.types.shape import UNBOUNDED, Shape
from xla_contract.wire.shape_proto import shape_from_proto, shape_to_proto

_IS_LITTLE = sys.byteorder == "little"


def value_to_proto(literal: Literal) -> xla_extension_pb2.Value:
    """The message for a literal; a token has a shape and nothing else."""
    value = xla_extension_pb2.Value()
    fill_value(value, literal)
    return value


def fill_value(value: xla_extension_pb2.Value, literal: Literal) -> None:
    """Fill an empty message with a literal.

    The message may be a field of another one, which saves a copy.
    """
    shape = literal.shape
    if not shape.is_array:
        value.shape.CopyFrom(shape_to_proto(shape))
        for element in literal.elements:
            fill_value(value.elements.add(), element)
        return
    form = _form_of(shape)
    value.shape.CopyFrom(form.shape)
    value.data = literal.value.tobytes() if form.is_plain else memory_of(literal).tobytes()
    if literal.dynamic_sizes:
        value.dynamic_sizes.extend(literal.dynamic_sizes)


@dataclasses.dataclass(frozen=True, slots=True)
class _Form:
    """Properties that all messages of arrays of one shape share."""

    shape: xla_data_pb2.ShapeProto
    """The shape's own message, to be copied."""
    is_plain: bool
    """True if the data are the memory of a row-major numpy array of static shape."""


def _form_of(shape: Shape) -> _Form:
    layout = shape.layout
    # Only fields that its layout carries along can make a shape large.
    is_large = layout is not None and bool(layout.tiles)
    return _found_form(shape) if is_large else _remembered_form(shape)


def _found_form(shape: Shape) -> _Form:
    kind = shape.element_type
    is_plain = (
        shape.layout is not None
        and shape.layout.is_descending
        and not shape.dynamic_dimensions
        and kind is not ElementType.PRED
        and kind.bit_width >= 8
        and (_IS_LITTLE or kind.byte_width == 1)
    )
    return _Form(shape_to_proto(shape), is_plain)


_remembered_form = functools.lru_cache(maxsize=1024)(_found_form)


def value_from_proto(value: xla_extension_pb2.Value, *, max_bytes: int | None = None) -> Literal:
    """Return the literal in a message; its arrays share the memory of the message's bytes.

    Args:
        value: The message.
        max_bytes: Bound of the values' size.

    Raises:
        InvalidArgumentError: The shape is missing or does not fit the data, the elements or the
            sizes.
        ResourceExhaustedError: The values take more than `max_bytes`.
    """
    if not value.HasField("shape"):
        raise InvalidArgumentError("a value must have a shape, got none")
    shape = shape_from_proto(value.shape)
    if max_bytes is not None and shape.byte_size > max_bytes:
        raise ResourceExhaustedError(
            f"value {shape}: may take {max_bytes} bytes, got {shape.byte_size}"
        )
    return _read(value, shape)


def is_plain(shape: Shape) -> bool:
    """Return whether `Value.data` of such an array is a row-major numpy array's memory.

    It is for types of whole bytes except PRED, of static shape, on little-endian processors.
    """
    return _form_of(shape).is_plain


def memory_of(literal: Literal) -> Array:
    """Return the bytes of an array as in `Value.data`: memory order, padded, little-endian.

    The result is one dimension of u8, and a view if the memory is in that order already.
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
    """Return the array whose `Value.data` is `memory`, u8 of one dimension; shares it if possible.

    Raises:
        InvalidArgumentError: The shape is no array or lacks a layout or bounds, the number of bytes
            is not the shape's, a PRED byte is neither 0 nor 1, or a dynamic size does not fit.
    """
    require_memory_shape(shape)
    kind = shape.element_type
    size = shape.byte_size
    if memory.size != size:
        raise InvalidArgumentError(f"value {shape}: data must hold {size} bytes, got {memory.size}")
    if kind is ElementType.PRED and memory.size and memory.max() > 1:
        raise InvalidArgumentError(
            f"value {shape}: bytes of pred must be 0 or 1, got {int(memory.max())}"
        )
    dtype = kind.dtype
    if dtype.itemsize == 1 and kind.bit_width < 8 and kind is not ElementType.PRED:
        memory = memory & np.uint8((1 << kind.bit_width) - 1)
    if not _IS_LITTLE and dtype.itemsize > 1:
        memory = memory.view(_component(dtype)).byteswap().view(np.uint8)
    try:
        return Literal.from_linear_memory(shape, memory.view(dtype), dynamic_sizes)
    except XlaError as error:
        raise InvalidArgumentError(f"value {shape}: {error.message}") from error


def require_memory_shape(shape: Shape) -> None:
    """Raise InvalidArgumentError unless the shape is an array that states its layout and bounds."""
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
            raise InvalidArgumentError(
                f"value {shape}: an array must have no elements, got {len(value.elements)}"
            )
        data = value.data
        # Every rule holds then; otherwise it is looked for the one that does not.
        if _form_of(shape).is_plain and len(data) == shape.byte_size and not value.dynamic_sizes:
            array = np.ndarray(shape.dimensions, shape.element_type.dtype, data)
            return Literal(shape, array)
        memory = np.frombuffer(data, np.uint8)
        return literal_of_memory(shape, memory, tuple(value.dynamic_sizes))
    if value.data or value.dynamic_sizes:
        raise InvalidArgumentError(
            f"value {shape}: only an array has data and dynamic_sizes, got {len(value.data)} bytes "
            f"and {len(value.dynamic_sizes)} sizes"
        )
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
