"""Slices along some dimensions, whole along the others, read and written.

Start indices known when the program is written are ints; the functions called `dynamic_...` take
scalar Ops, and move a slice that would reach outside to the edge, as `ops.dynamic_slice` does.
"""

from collections.abc import Sequence

import numpy as np

from xla_client import ops
from xla_client.programs.arguments.checked import checked
from xla_client.programs.builder import Dimensions, Op, Operands, as_sequence, integers
from xla_contract.errors import ShapeError
from xla_contract.types.dimension_numbers import GatherDimensionNumbers


@checked
def slice_in_minor_dims(operand: Op, start: Dimensions, end: Dimensions) -> Op:
    """The elements from `start` up to `end` in the last dimensions.

    Args:
        operand: An array.
        start: The first index in each of the last dimensions.
        end: The index after the last one in each of them.

    Returns:
        The slice, with all of the dimensions before them.

    Raises:
        ShapeError: The bounds are not as many, or outside the operand.

    Example:
        >>> x = Builder("example").parameter(0, "f32[5,8]")
        >>> lib.slicing.slice_in_minor_dims(x, [2], [6])
        %slice.2: f32[5,4]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/slicing.h
    """
    start = integers(start)
    end = integers(end)
    if len(start) != len(end):
        raise ShapeError(
            f"start and end must have one entry per dimension, got {len(start)} and {len(end)}"
        ).at("slice")
    major = _major("slice", operand, start)
    sizes = operand.shape.dimensions[: len(major)]
    return ops.slice(operand, (*major, *start), (*sizes, *end))


@checked
def update_slice(operand: Op, update: Op, start: Dimensions) -> Op:
    """The operand with a slice of it replaced.

    Args:
        operand: An array.
        update: The new elements, of the operand's rank.
        start: The first index in each dimension.

    Returns:
        The updated operand.

    Raises:
        ShapeError: The update is not inside the operand.

    Example:
        >>> b = Builder("example")
        >>> x, y = b.parameter(0, "f32[5,8]"), b.parameter(1, "f32[2,3]")
        >>> lib.slicing.update_slice(x, y, [1, 2])
        %dynamic-update-slice.5: f32[5,8]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/slicing.h
    """
    starts = integers(start)
    limits = [low + size for low, size in zip(starts, update.shape.dimensions, strict=False)]
    if (
        len(starts) != operand.shape.rank
        or update.shape.rank != operand.shape.rank
        or any(
            low < 0 or limit > size
            for low, limit, size in zip(starts, limits, operand.shape.dimensions, strict=True)
        )
    ):
        raise ShapeError(
            f"an update must lie inside the operand, got {update.shape} at "
            f"{{{','.join(map(str, starts))}}} of {operand.shape}"
        ).at("dynamic-update-slice")
    return ops.dynamic_update_slice(operand, update, _constants(operand, starts))


@checked
def update_slice_in_minor_dims(operand: Op, update: Op, start: Dimensions) -> Op:
    """The operand with a slice of it replaced, from index 0 in the first dimensions.

    Args:
        operand: An array.
        update: The new elements, of the operand's rank.
        start: The first index in each of the last dimensions.

    Returns:
        The updated operand.

    Raises:
        ShapeError: The update is not inside the operand.

    Example:
        >>> b = Builder("example")
        >>> x, y = b.parameter(0, "f32[5,8]"), b.parameter(1, "f32[5,3]")
        >>> lib.slicing.update_slice_in_minor_dims(x, y, [2])
        %dynamic-update-slice.5: f32[5,8]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/slicing.h
    """
    start = integers(start)
    major = _major("dynamic-update-slice", operand, start)
    return update_slice(operand, update, (*major, *start))


@checked
def dynamic_slice_in_minor_dims(operand: Op, starts: Operands, sizes: Dimensions) -> Op:
    """The slice in the last dimensions that begins at computed indices.

    Args:
        operand: An array.
        starts: A scalar integer for each of the last dimensions; the slice is moved to lie inside
            the operand.
        sizes: The size of the slice in each of them.

    Returns:
        The slice, with all of the dimensions before them.

    Raises:
        ShapeError: The sizes are not one per start, or exceed the operand.
        InvalidArgumentError: A start is a tuple or a token.

    Example:
        >>> b = Builder("example")
        >>> x, n = b.parameter(0, "f32[5,8]"), b.parameter(1, "s32[]")
        >>> lib.slicing.dynamic_slice_in_minor_dims(x, [n], [3])
        %dynamic-slice.4: f32[5,3]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/slicing.h
    """
    starts = as_sequence(starts)
    sizes = integers(sizes)
    major = _major("dynamic-slice", operand, starts)
    whole = operand.shape.dimensions[: len(major)]
    zeros = _zeros(operand, len(major), starts)
    return ops.dynamic_slice(operand, [*zeros, *starts], (*whole, *sizes))


@checked
def dynamic_update_slice_in_minor_dims(operand: Op, update: Op, starts: Operands) -> Op:
    """The operand with the slice replaced that begins at computed indices in the last dimensions.

    Args:
        operand: An array.
        update: The new elements, of the operand's rank.
        starts: A scalar integer for each of the last dimensions; the slice is moved to lie inside
            the operand.

    Returns:
        The updated operand.

    Raises:
        ShapeError: The update exceeds the operand, or there are more starts than dimensions.
        InvalidArgumentError: A start is a tuple or a token.

    Example:
        >>> b = Builder("example")
        >>> x, y = b.parameter(0, "f32[5,8]"), b.parameter(1, "f32[5,3]")
        >>> n = b.parameter(2, "s32[]")
        >>> lib.slicing.dynamic_update_slice_in_minor_dims(x, y, [n])
        %dynamic-update-slice.5: f32[5,8]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/slicing.h
    """
    starts = as_sequence(starts)
    major = _major("dynamic-update-slice", operand, starts)
    zeros = _zeros(operand, len(major), starts)
    return ops.dynamic_update_slice(operand, update, [*zeros, *starts])


@checked
def dynamic_slice_in_dim(operand: Op, start: Op, size: int, dimension: int = 0) -> Op:
    """The slice along one dimension that begins at a computed index.

    Args:
        operand: An array.
        start: A scalar integer; the slice is moved to lie inside the operand.
        size: The size of the slice.
        dimension: The dimension; a negative number counts from the end.

    Returns:
        The slice.

    Raises:
        ShapeError: The size exceeds the dimension, or the array has no such dimension.
        InvalidArgumentError: The start is a tuple or a token.

    Example:
        >>> b = Builder("example")
        >>> x, n = b.parameter(0, "f32[5,8]"), b.parameter(1, "s32[]")
        >>> lib.slicing.dynamic_slice_in_dim(x, n, 3, 1)
        %dynamic-slice.5: f32[5,3]

    See https://openxla.org/xla/operation_semantics#dynamicslice
    """
    number = operand.shape.dimension_number(dimension)
    sizes = list(operand.shape.dimensions)
    sizes[number] = size
    return ops.dynamic_slice(operand, _starts(operand, start, number), sizes)


@checked
def dynamic_update_slice_in_dim(operand: Op, update: Op, start: Op, dimension: int = 0) -> Op:
    """The operand with the slice replaced that begins at a computed index of one dimension.

    Args:
        operand: An array.
        update: The new elements, of the operand's rank.
        start: A scalar integer; the slice is moved to lie inside the operand.
        dimension: The dimension; a negative number counts from the end.

    Returns:
        The updated operand.

    Raises:
        ShapeError: The update exceeds the operand, or the array has no such dimension.
        InvalidArgumentError: The start is a tuple or a token.

    Example:
        >>> b = Builder("example")
        >>> x, y = b.parameter(0, "f32[5,8]"), b.parameter(1, "f32[5,3]")
        >>> n = b.parameter(2, "s32[]")
        >>> lib.slicing.dynamic_update_slice_in_dim(x, y, n, 1)
        %dynamic-update-slice.6: f32[5,8]

    See https://openxla.org/xla/operation_semantics#dynamicupdateslice
    """
    number = operand.shape.dimension_number(dimension)
    return ops.dynamic_update_slice(operand, update, _starts(operand, start, number))


@checked
def index_in_dim(operand: Op, index: int, dimension: int = 0, *, keep_dimension: bool = True) -> Op:
    """The slice at one index of a dimension.

    Args:
        operand: An array.
        index: The index; a negative one counts from the end.
        dimension: The dimension; a negative number counts from the end.
        keep_dimension: Whether the result keeps the dimension, with size 1.

    Returns:
        The slice.

    Raises:
        ShapeError: The index is outside the dimension, or the array has no such dimension.

    Example:
        >>> x = Builder("example").parameter(0, "f32[5,8]")
        >>> lib.slicing.index_in_dim(x, -1, 1)
        %slice.2: f32[5,1]

    See https://openxla.org/xla/operation_semantics#slice
    """
    number = operand.shape.dimension_number(dimension)
    size = operand.shape.dimensions[number]
    if not -size <= index < size:
        raise ShapeError(
            f"an index must lie inside its dimension, got {index} of dim {number} = {size} of "
            f"{operand.shape}"
        ).at("slice")
    part = ops.slice_in_dim(operand, index % size, index % size + 1, 1, number)
    return part if keep_dimension else _dropped(part, number)


@checked
def dynamic_index_in_dim(
    operand: Op, index: Op, dimension: int = 0, *, keep_dimension: bool = True
) -> Op:
    """The slice at one computed index of a dimension.

    Args:
        operand: An array.
        index: A scalar integer; one out of range is moved to the edge.
        dimension: The dimension; a negative number counts from the end.
        keep_dimension: Whether the result keeps the dimension, with size 1.

    Returns:
        The slice.

    Raises:
        ShapeError: The index is no scalar integer, or the array has no such dimension.
        InvalidArgumentError: The index is a tuple or a token.

    Example:
        >>> b = Builder("example")
        >>> x, n = b.parameter(0, "f32[5,8]"), b.parameter(1, "s32[]")
        >>> lib.slicing.dynamic_index_in_dim(x, n, 1, keep_dimension=False)
        %reshape.6: f32[5]

    See https://openxla.org/xla/operation_semantics#dynamicslice
    """
    number = operand.shape.dimension_number(dimension)
    part = dynamic_slice_in_dim(operand, index, 1, number)
    return part if keep_dimension else _dropped(part, number)


@checked
def dynamic_update_index_in_dim(operand: Op, update: Op, index: Op, dimension: int = 0) -> Op:
    """The operand with the slice replaced at one computed index of a dimension.

    Args:
        operand: An array.
        update: The new elements, with or without that dimension.
        index: A scalar integer; one out of range is moved to the edge.
        dimension: The dimension; a negative number counts from the end.

    Returns:
        The updated operand.

    Raises:
        ShapeError: The update does not fit the operand, or the array has no such dimension.
        InvalidArgumentError: The index is a tuple or a token.

    Example:
        >>> b = Builder("example")
        >>> x, y, n = b.parameter(0, "f32[5,8]"), b.parameter(1, "f32[5]"), b.parameter(2, "s32[]")
        >>> lib.slicing.dynamic_update_index_in_dim(x, y, n, 1)
        %dynamic-update-slice.7: f32[5,8]

    See https://openxla.org/xla/operation_semantics#dynamicupdateslice
    """
    number = operand.shape.dimension_number(dimension)
    if update.shape.rank == operand.shape.rank - 1:
        sizes = list(update.shape.dimensions)
        update = ops.reshape(update, [*sizes[:number], 1, *sizes[number:]])
    return dynamic_update_slice_in_dim(operand, update, index, number)


@checked
def take_in_dim(operand: Op, indices: Op, dimension: int = 0) -> Op:
    """The slices at several indices of a dimension.

    Args:
        operand: An array.
        indices: An array of integers; those out of range are moved to the edge.
        dimension: The dimension; a negative number counts from the end.

    Returns:
        The slices, with the dimensions of the indices instead of `dimension`.

    Raises:
        ShapeError: The indices are not integers, or the array has no such dimension.

    Example:
        >>> b = Builder("example")
        >>> x, n = b.parameter(0, "f32[5,8]"), b.parameter(1, "s32[2,3]")
        >>> lib.slicing.take_in_dim(x, n, 1)
        %gather.3: f32[5,2,3]

    See https://openxla.org/xla/operation_semantics#gather
    """
    number = operand.shape.dimension_number(dimension)
    rank = operand.shape.rank
    sizes = list(operand.shape.dimensions)
    sizes[number] = min(1, sizes[number])
    behind = range(number + indices.shape.rank, rank - 1 + indices.shape.rank)
    numbers = GatherDimensionNumbers(
        offset_dims=(*range(number), *behind),
        collapsed_slice_dims=(number,),
        start_index_map=(number,),
        index_vector_dim=indices.shape.rank,
    )
    return ops.gather(operand, indices, numbers, sizes)


def _major(function: str, operand: Op, minor: Sequence[object]) -> tuple[int, ...]:
    if len(minor) > operand.shape.rank:
        raise ShapeError(
            f"there must be at most one start per dimension, got {len(minor)} for {operand.shape}"
        ).at(function)
    return (0,) * (operand.shape.rank - len(minor))


def _constants(operand: Op, starts: Sequence[int]) -> list[Op]:
    return [operand.builder.constant(np.int64(start)) for start in starts]


def _zeros(operand: Op, count: int, like: Sequence[Op]) -> list[Op]:
    dtype = like[0].shape.element_type.dtype if like else np.dtype(np.int32)
    zero = np.zeros((), dtype)
    return [operand.builder.constant(zero) for _ in range(count)]


def _starts(operand: Op, start: Op, number: int) -> list[Op]:
    starts = _zeros(operand, operand.shape.rank, [start])
    starts[number] = start
    return starts


def _dropped(part: Op, number: int) -> Op:
    sizes = part.shape.dimensions
    return ops.reshape(part, (*sizes[:number], *sizes[number + 1 :]))
