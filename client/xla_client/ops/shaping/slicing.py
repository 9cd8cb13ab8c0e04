"""Parts of arrays, and arrays of parts. Semantics: XLA's operations of these names."""

import numpy as np

from xla_client.coercion.records import PaddingAmounts
from xla_client.coercion.records import padding_config as as_padding_config
from xla_client.programs.arguments.checked import checked
from xla_client.programs.arguments.operands import values
from xla_client.programs.arguments.scalars import Scalar
from xla_client.programs.builder import (
    Dimensions,
    Op,
    Operands,
    Values,
    as_sequence,
    builder_of,
    errors_at,
    integers,
    promoted,
)
from xla_contract.ops.indexing.dynamic_slice import DynamicSliceAttributes
from xla_contract.ops.shaping.concatenate import ConcatenateAttributes
from xla_contract.ops.shaping.pad import PadAttributes
from xla_contract.ops.shaping.slice import SliceAttributes
from xla_contract.types.dimension_numbers import PaddingConfig, PaddingDimension
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape


@checked
def slice(
    operand: Op,
    start_indices: Dimensions,
    limit_indices: Dimensions,
    strides: Dimensions | None = None,
) -> Op:
    """The elements from `start_indices` up to `limit_indices`.

    Args:
        operand: An array.
        start_indices: The first index in each dimension.
        limit_indices: The index after the last in each dimension.
        strides: The step in each dimension; 1 by default.

    Returns:
        The slice.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.slice(x, (0, 1), (2, 3))
        %slice.2: f32[2,2]

    See https://openxla.org/xla/operation_semantics#slice
    """
    starts = integers(start_indices)
    steps = (1,) * len(starts) if strides is None else integers(strides)
    attributes = SliceAttributes(starts, integers(limit_indices), steps)
    return operand.builder.instruction(Opcode.SLICE, [operand], attributes)


@checked
def slice_in_dim(
    operand: Op, start_index: int, limit_index: int, stride: int, dimension: int
) -> Op:
    """The elements from `start_index` up to `limit_index` of one dimension, and all of the others.

    Args:
        operand: An array.
        start_index: The first index, from 0.
        limit_index: The index after the last.
        stride: The step.
        dimension: The dimension; a negative number counts from the end.

    Returns:
        The slice.

    Raises:
        InvalidArgumentError: The stride has more than 64 bits.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.slice_in_dim(x, 0, 2, 1, -1)
        %slice.2: f32[2,2]

    See https://openxla.org/xla/operation_semantics#slice
    """
    with errors_at(Opcode.SLICE):
        dimension = operand.shape.dimension_number(dimension)
    starts = [0] * operand.shape.rank
    limits = list(operand.shape.dimensions)
    strides = [1] * operand.shape.rank
    starts[dimension], limits[dimension], strides[dimension] = start_index, limit_index, stride
    return slice(operand, starts, limits, strides)


@checked
def dynamic_slice(operand: Op, start_indices: Values, slice_sizes: Dimensions) -> Op:
    """A slice whose start is computed at run time.

    A slice that would reach outside of the operand is moved inside.

    Args:
        operand: An array.
        start_indices: The first index of the slice in each dimension: Ops of integer scalars and
            ints, which take the type of the Ops, or s32.
        slice_sizes: The size of the slice in each dimension.

    Returns:
        The slice, of `slice_sizes`.

    Raises:
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> b = Builder("example")
        >>> x, i = b.parameter(0, "f32[2,3]"), b.parameter(1, "s32[]")
        >>> ops.dynamic_slice(x, [i, 0], (1, 3))
        %dynamic-slice.4: f32[1,3]

    See https://openxla.org/xla/operation_semantics#dynamicslice
    """
    attributes = DynamicSliceAttributes(integers(slice_sizes))
    operands = [operand, *_starts(operand, start_indices)]
    return operand.builder.instruction(Opcode.DYNAMIC_SLICE, operands, attributes)


@checked
def dynamic_update_slice(operand: Op, update: Op, start_indices: Values) -> Op:
    """The operand with a slice replaced by `update`, whose start is computed at run time.

    A slice that would reach outside of the operand is moved inside.

    Args:
        operand: An array.
        update: The new elements, of the operand's rank and no larger in any dimension.
        start_indices: The first index of the slice in each dimension: Ops of integer scalars and
            ints, which take the type of the Ops, or s32.

    Returns:
        The array with the slice replaced.

    Raises:
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> b = Builder("example")
        >>> x, i = b.parameter(0, "f32[2,3]"), b.parameter(1, "s32[]")
        >>> ops.dynamic_update_slice(x, x[:1], [i, 0])
        %dynamic-update-slice.5: f32[2,3]

    See https://openxla.org/xla/operation_semantics#dynamicupdateslice
    """
    operands = [operand, update, *_starts(operand, start_indices)]
    return operand.builder.instruction(Opcode.DYNAMIC_UPDATE_SLICE, operands)


@checked
def concat_in_dim(operands: Operands, dimension: int) -> Op:
    """The operands joined in order along a dimension.

    Args:
        operands: Arrays of one type, which may differ in size along `dimension` only.
        dimension: The dimension to join along.

    Returns:
        The joined array.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.concat_in_dim([x, x], 1)
        %concatenate.2: f32[2,6]

    See https://openxla.org/xla/operation_semantics#concatenate
    """
    attributes = ConcatenateAttributes(dimension)
    arrays = as_sequence(operands)
    return builder_of(*arrays).instruction(Opcode.CONCATENATE, arrays, attributes)


@checked
def pad(operand: Op, padding_value: Op | Scalar, padding_config: PaddingAmounts) -> Op:
    """The operand with padding before, after and between its elements.

    Args:
        operand: An array.
        padding_value: The element of the padding: an Op of a scalar, or a number.
        padding_config: A PaddingConfig, or (low, high) or (low, high, interior) per dimension: the
            numbers of elements before, after and between. Negative ones before and after cut
            elements off.

    Returns:
        The padded array.

    Raises:
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.pad(x, 0.0, [(0, 0), (1, 2)])
        %pad.3: f32[2,6]

    See https://openxla.org/xla/operation_semantics#pad
    """
    attributes = PadAttributes(as_padding_config("padding_config", padding_config))
    with errors_at(Opcode.PAD):
        value = promoted(operand.builder, padding_value, operand.shape)
    return operand.builder.instruction(Opcode.PAD, [operand, value], attributes)


@checked
def pad_in_dim(operand: Op, padding_value: Op | Scalar, dimension: int, low: int, high: int) -> Op:
    """The operand with padding before and after its elements along one dimension.

    Args:
        operand: An array.
        padding_value: The element of the padding: an Op of a scalar, or a number.
        dimension: The dimension; a negative number counts from the end.
        low: The number of elements before the first; a negative one cuts elements off.
        high: The number of elements after the last; a negative one cuts elements off.

    Returns:
        The padded array.

    Raises:
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.pad_in_dim(x, 0.0, 1, 0, 2)
        %pad.3: f32[2,5]

    See https://openxla.org/xla/operation_semantics#pad
    """
    with errors_at(Opcode.PAD):
        dimension = operand.shape.dimension_number(dimension)
    amounts = [PaddingDimension()] * operand.shape.rank
    amounts[dimension] = PaddingDimension(low, high)
    return pad(operand, padding_value, PaddingConfig(tuple(amounts)))


def _starts(operand: Op, start_indices: Values) -> list[Op]:
    starts = values("start_indices", start_indices)
    known = (start.shape for start in starts if isinstance(start, Op))
    like = next(known, Shape.scalar(ElementType.S32))
    return [
        promoted(operand.builder, start, None if isinstance(start, np.generic) else like)
        for start in starts
    ]
