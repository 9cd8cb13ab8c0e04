"""Shapes, layouts and program shapes as the messages of xla_data.proto.

Reading refuses whatever the types here could not hold, with InvalidArgumentError, and is
bounded: nesting has a limit and nothing is allocated that the message does not spell out.
Retired fields of old writers are read where they still mean something (padding) and passed
over where they do not (rank, DENSE format).
"""

import functools
from typing import Any

from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import xla_data_pb2
from xla_contract.types.element_type import ElementType
from xla_contract.types.layout import Layout, PaddingValue
from xla_contract.types.shape import ProgramShape, Shape

MAX_NESTING = 64
"""Deepest nesting of tuples in a message; protobuf itself stops at 100 messages."""

_NO_ELEMENTS = frozenset({ElementType.TUPLE, ElementType.TOKEN, ElementType.OPAQUE_TYPE})


def layout_to_proto(layout: Layout) -> xla_data_pb2.LayoutProto:
    """The message for a layout."""
    proto = xla_data_pb2.LayoutProto()
    _fill_layout(proto, layout)
    return proto


def layout_from_proto(proto: xla_data_pb2.LayoutProto) -> Layout:
    """Return the layout in a message.

    Tiles, memory spaces and element sizes are kept; other fields about the writer's hardware (split
    memories, metadata prefix) are dropped.

    Raises:
        InvalidArgumentError: The layout is sparse or no permutation.
    """
    if proto.format == xla_data_pb2.LayoutProto.SPARSE or any(proto.dim_level_types):
        raise InvalidArgumentError("a layout must be dense, got a sparse one")
    try:
        padding = PaddingValue(proto.padding_value)
    except ValueError:
        raise InvalidArgumentError(
            f"padding_value must be a PaddingValue, got number {proto.padding_value}"
        ) from None
    return Layout(
        tuple(proto.minor_to_major),
        padded_dimensions=tuple(proto.padded_dimensions),
        padding_value=padding,
        tiles=tuple(tuple(tile.dimensions) for tile in proto.tiles),
        element_size_in_bits=proto.element_size_in_bits,
        memory_space=proto.memory_space,
        # Writers from before this field leave 0, which means the same as 1.
        tail_padding_alignment_in_elements=proto.tail_padding_alignment_in_elements or 1,
    )


def shape_to_proto(shape: Shape) -> xla_data_pb2.ShapeProto:
    """The message for a shape; a layout is written only if the shape states one."""
    proto = xla_data_pb2.ShapeProto()
    _fill_shape(proto, shape)
    return proto


def shape_from_proto(proto: xla_data_pb2.ShapeProto) -> Shape:
    """Return the shape in a message; an absent layout stays None.

    Raises:
        InvalidArgumentError: The element type is unknown, tuples nest deeper than MAX_NESTING, a
            tuple has dimensions or an array has elements, or a rule of Shape or Layout is broken.
    """
    data = proto.SerializeToString()
    if len(data) > _REMEMBERED_BYTES:
        return _read_shape(proto, 0)
    return _remembered(data)


_REMEMBERED_BYTES = 256
"""Messages of shapes up to this size are read once; the same few come again and again."""


@functools.lru_cache(maxsize=1024)
def _remembered(data: bytes) -> Shape:
    return _read_shape(xla_data_pb2.ShapeProto.FromString(data), 0)


def program_shape_to_proto(program: ProgramShape) -> xla_data_pb2.ProgramShapeProto:
    """The message for a signature."""
    proto = xla_data_pb2.ProgramShapeProto()
    for parameter in program.parameters:
        _fill_shape(proto.parameters.add(), parameter)
    _fill_shape(proto.result, program.result)
    proto.parameter_names.extend(program.parameter_names)
    return proto


def program_shape_from_proto(proto: xla_data_pb2.ProgramShapeProto) -> ProgramShape:
    """The signature in a message; InvalidArgumentError without a result or with odd names."""
    if not proto.HasField("result"):
        raise InvalidArgumentError("a program shape must have a result, got none")
    names = tuple(proto.parameter_names)
    if names and len(names) != len(proto.parameters):
        raise InvalidArgumentError(
            "parameter_names must be empty or have one entry per parameter, got "
            f"{len(names)} names for {len(proto.parameters)} parameters"
        )
    return ProgramShape(
        tuple(_read_shape(parameter, 0) for parameter in proto.parameters),
        _read_shape(proto.result, 0),
        names,
    )


def _fill_layout(proto: xla_data_pb2.LayoutProto, layout: Layout) -> None:
    fields: Any = proto
    proto.minor_to_major.extend(layout.minor_to_major)
    proto.padded_dimensions.extend(layout.padded_dimensions)
    fields.padding_value = int(layout.padding_value)
    for tile in layout.tiles:
        proto.tiles.add().dimensions.extend(tile)
    proto.element_size_in_bits = layout.element_size_in_bits
    proto.memory_space = layout.memory_space
    proto.tail_padding_alignment_in_elements = layout.tail_padding_alignment_in_elements


def _fill_shape(proto: xla_data_pb2.ShapeProto, shape: Shape) -> None:
    fields: Any = proto
    fields.element_type = int(shape.element_type)
    proto.dimensions.extend(shape.dimensions)
    # One flag per dimension even when none is dynamic, as today's writers do.
    proto.is_dynamic_dimension.extend(shape.dynamic_dimensions or (False,) * shape.rank)
    for part in shape.tuple_shapes:
        _fill_shape(proto.tuple_shapes.add(), part)
    if shape.layout is not None:
        proto.layout.SetInParent()
        _fill_layout(proto.layout, shape.layout)


def _read_shape(proto: xla_data_pb2.ShapeProto, depth: int) -> Shape:
    if depth > MAX_NESTING:
        raise InvalidArgumentError(f"tuples may nest {MAX_NESTING} deep, got a deeper shape")
    element_type = _read_element_type(proto.element_type)
    if element_type in _NO_ELEMENTS:
        return _read_other(proto, element_type, depth)
    if proto.tuple_shapes:
        raise InvalidArgumentError(
            f"only a tuple has tuple_shapes, got {len(proto.tuple_shapes)} in {element_type.text}"
        )
    return Shape(
        element_type,
        tuple(proto.dimensions),
        layout_from_proto(proto.layout) if proto.HasField("layout") else None,
        tuple(proto.is_dynamic_dimension),
    )


def _read_other(proto: xla_data_pb2.ShapeProto, element_type: ElementType, depth: int) -> Shape:
    if proto.dimensions:
        raise InvalidArgumentError(
            f"only an array has dimensions, got {len(proto.dimensions)} of {element_type.text}"
        )
    if element_type is not ElementType.TUPLE and proto.tuple_shapes:
        raise InvalidArgumentError(
            f"only a tuple has tuple_shapes, got {len(proto.tuple_shapes)} in {element_type.text}"
        )
    return Shape(
        element_type,
        tuple_shapes=tuple(_read_part(part, depth + 1) for part in proto.tuple_shapes),
    )


def _read_part(proto: xla_data_pb2.ShapeProto, depth: int) -> Shape:
    # A tuple may have thousands of elements, of a few shapes.
    is_leaf = not proto.tuple_shapes and depth <= MAX_NESTING
    return shape_from_proto(proto) if is_leaf else _read_shape(proto, depth)


def _read_element_type(number: int) -> ElementType:
    try:
        element_type = ElementType(number)
    except ValueError:
        raise InvalidArgumentError(
            f"element_type must be a PrimitiveType, got number {number}"
        ) from None
    if not element_type.is_array and element_type not in _NO_ELEMENTS:
        raise InvalidArgumentError(
            f"element_type must be one that values have here, got {element_type.text}"
        )
    return element_type
