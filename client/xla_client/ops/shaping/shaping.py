"""The same elements in arrays of other dimensions. Semantics: XLA's operations of these names."""

import math
from collections.abc import Sequence

import numpy as np

from xla_client.coercion.numbers import flags
from xla_client.ops.elementwise.binary import stretch
from xla_client.ops.elementwise.broadcasting import plan_in_dim
from xla_client.ops.elementwise.flooring import floor_mod
from xla_client.ops.shaping.slicing import concat_in_dim, dynamic_slice, slice_in_dim
from xla_client.programs.arguments.checked import checked
from xla_client.programs.arguments.scalars import Scalar
from xla_client.programs.builder import (
    Dimensions,
    Op,
    Operands,
    as_sequence,
    errors_at,
    integers,
    promoted,
)
from xla_contract.errors import ShapeError
from xla_contract.ops.shaping.broadcast import BroadcastAttributes
from xla_contract.ops.shaping.dynamic_reshape import DynamicReshapeAttributes
from xla_contract.ops.shaping.get_dimension_size import GetDimensionSizeAttributes
from xla_contract.ops.shaping.reshape import ReshapeAttributes
from xla_contract.ops.shaping.reverse import ReverseAttributes
from xla_contract.ops.shaping.set_dimension_size import SetDimensionSizeAttributes
from xla_contract.ops.shaping.transpose import TransposeAttributes
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape


@checked
def broadcast(operand: Op, broadcast_sizes: Dimensions) -> Op:
    """The operand repeated along new dimensions, which come before its own.

    Args:
        operand: An array.
        broadcast_sizes: The sizes of the new dimensions.

    Returns:
        The larger array.

    Raises:
        InvalidArgumentError: A size is negative or too large.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.broadcast(x, 2)
        %broadcast.2: f32[2,3]

    See https://openxla.org/xla/operation_semantics#broadcast
    """
    sizes = integers(broadcast_sizes)
    mapping = tuple(range(len(sizes), len(sizes) + operand.shape.rank))
    attributes = BroadcastAttributes(mapping, (*sizes, *operand.shape.dimensions))
    return operand.builder.instruction(Opcode.BROADCAST, [operand], attributes)


@checked
def broadcast_in_dim(operand: Op, out_dim_size: Dimensions, broadcast_dimensions: Dimensions) -> Op:
    """The operand broadcast to an array of `out_dim_size`.

    Dimension i of the operand becomes dimension `broadcast_dimensions[i]`, in which a size of 1 is
    repeated. Along all other dimensions the whole operand is repeated.

    Args:
        operand: An array.
        out_dim_size: The sizes of the result.
        broadcast_dimensions: The dimension of the result for each of the operand's, increasing.

    Returns:
        The array of `out_dim_size`.

    Raises:
        ShapeError: A size does not fit, or the numbers do not increase.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.broadcast_in_dim(x, (2, 3), 1)
        %broadcast.2: f32[2,3]

    See https://openxla.org/xla/operation_semantics#broadcastindim
    """
    try:
        plan = plan_in_dim(operand.shape, integers(out_dim_size), integers(broadcast_dimensions))
    except ShapeError as error:
        raise error.at(Opcode.BROADCAST) from None
    return stretch(operand, plan)


@checked
def reshape(
    operand: Op,
    new_sizes: Dimensions,
    dimensions: Dimensions | None = None,
    *,
    inferred_dimension: int | None = None,
) -> Op:
    """The same elements, in row-major order, in an array of other sizes.

    Args:
        operand: An array.
        new_sizes: The sizes of the result. One may be -1, for the size that makes the numbers of
            elements equal.
        dimensions: The order in which the operand's dimensions are read, from the slowest to the
            fastest: a permutation, row-major by default.
        inferred_dimension: The dimension of the result that is dynamic. It is needed if the operand
            is dynamic and several dimensions of the result could be.

    Returns:
        The array of the new sizes.

    Raises:
        ShapeError: The numbers of elements differ, or an argument names no dimension.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.reshape(x, (3, -1))
        %reshape.2: f32[3,2]

    See https://openxla.org/xla/operation_semantics#reshape
    """
    if dimensions is not None and integers(dimensions) != tuple(range(operand.shape.rank)):
        operand = transpose(operand, dimensions)
    sizes = _with_size_found(operand, integers(new_sizes))
    dynamic = tuple(number == inferred_dimension for number in range(len(sizes)))
    attributes = ReshapeAttributes(sizes, dynamic if any(dynamic) else ())
    if inferred_dimension is not None and not attributes.dynamic_dimensions:
        raise ShapeError(
            f"the inferred dimension must be in [0, {len(sizes)}), got {inferred_dimension} for "
            f"{operand.shape}"
        ).at(Opcode.RESHAPE)
    return operand.builder.instruction(Opcode.RESHAPE, [operand], attributes)


@checked
def dynamic_reshape(
    operand: Op,
    dim_sizes: Operands,
    new_size_bounds: Dimensions,
    dims_are_dynamic: bool | Sequence[bool],
) -> Op:
    """The same elements, in row-major order, in an array whose sizes are known at run time.

    Args:
        operand: An array.
        dim_sizes: The size of each dimension at run time, s32[]. It is read for dynamic dimensions;
            the size of others is the bound.
        new_size_bounds: The largest size of each dimension.
        dims_are_dynamic: Whether each dimension is dynamic.

    Returns:
        The array of the new sizes.

    Raises:
        ShapeError: There is not one entry per dimension, or the bounds give another number of
            elements than the operand's.
        InvalidArgumentError: A size is negative or too large.

    Example:
        >>> b = Builder("example")
        >>> x, n = b.parameter(0, "f32[<=6]"), b.parameter(1, "s32[]")
        >>> ops.dynamic_reshape(x, n, 6, True)
        %dynamic-reshape.3: f32[<=6]
    """
    bounds = integers(new_size_bounds)
    dynamic = flags("dims_are_dynamic", dims_are_dynamic)
    if len(dynamic) != len(bounds):
        raise ShapeError(
            "dims_are_dynamic must have one entry per dimension, got "
            f"{len(dynamic)} for {len(bounds)} bounds"
        ).at(Opcode.DYNAMIC_RESHAPE)
    attributes = DynamicReshapeAttributes(bounds, dynamic if any(dynamic) else ())
    operands = [operand, *as_sequence(dim_sizes)]
    return operand.builder.instruction(Opcode.DYNAMIC_RESHAPE, operands, attributes)


@checked
def collapse(operand: Op, dimensions: Dimensions) -> Op:
    """The operand with adjacent dimensions merged into one, in row-major order.

    Args:
        operand: An array.
        dimensions: The numbers of the dimensions, each one more than the number before.

    Returns:
        The array with fewer dimensions.

    Raises:
        ShapeError: The dimensions are not adjacent and in order, or are not there.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.collapse(x, (0, 1))
        %reshape.2: f32[6]

    See https://openxla.org/xla/operation_semantics#collapse
    """
    numbers = integers(dimensions)
    sizes = operand.shape.dimensions
    if not numbers:
        return operand
    first, last = numbers[0], numbers[-1]
    if numbers != tuple(range(first, last + 1)) or not 0 <= first <= last < len(sizes):
        raise ShapeError(
            "collapsed dimensions must be neighbours in order, got "
            f"{{{','.join(map(str, numbers))}}} of {operand.shape}"
        ).at(Opcode.RESHAPE)
    merged = math.prod(sizes[first : last + 1])
    return reshape(operand, (*sizes[:first], merged, *sizes[last + 1 :]))


@checked
def transpose(operand: Op, permutation: Dimensions) -> Op:
    """The operand with its dimensions in another order.

    Args:
        operand: An array.
        permutation: The dimension of the operand for each dimension of the result.

    Returns:
        The array, whose dimension i has the size of the operand's dimension `permutation[i]`.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.transpose(x, (1, 0))
        %transpose.2: f32[3,2]

    See https://openxla.org/xla/operation_semantics#transpose
    """
    attributes = TransposeAttributes(integers(permutation))
    return operand.builder.instruction(Opcode.TRANSPOSE, [operand], attributes)


@checked
def rev(operand: Op, dimensions: Dimensions) -> Op:
    """The elements in reverse order along some dimensions.

    Args:
        operand: An array.
        dimensions: The dimensions to reverse.

    Returns:
        The reversed array, of the operand's shape.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.rev(x, 0)
        %reverse.2: f32[2,3]

    See https://openxla.org/xla/operation_semantics#rev_reverse
    """
    attributes = ReverseAttributes(integers(dimensions))
    return operand.builder.instruction(Opcode.REVERSE, [operand], attributes)


@checked
def get_dimension_size(operand: Op, dimension: int) -> Op:
    """The size of a dimension when the program runs, s32[].

    Args:
        operand: An array.
        dimension: The number of a dimension.

    Returns:
        The size, s32[].

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.get_dimension_size(x, 0)
        %get-dimension-size.2: s32[]

    See https://openxla.org/xla/operation_semantics#getdimensionsize
    """
    attributes = GetDimensionSizeAttributes(dimension)
    return operand.builder.instruction(Opcode.GET_DIMENSION_SIZE, [operand], attributes)


@checked
def set_dimension_size(operand: Op, val: Op | Scalar, dimension: int) -> Op:
    """The operand with a dynamic dimension, of which only the first `val` elements are used.

    The static size becomes the bound. A run with a size below 0 or above the bound fails.

    Args:
        operand: An array.
        val: The size at run time: an int, or an Op of s32[].
        dimension: The number of a dimension.

    Returns:
        The operand with a dynamic dimension.

    Raises:
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.set_dimension_size(x, 2, 0)
        %set-dimension-size.3: f32[<=3]

    See https://openxla.org/xla/operation_semantics#setdimensionsize
    """
    attributes = SetDimensionSizeAttributes(dimension)
    size = promoted(operand.builder, val, Shape.scalar(ElementType.S32))
    return operand.builder.instruction(Opcode.SET_DIMENSION_SIZE, [operand, size], attributes)


@checked
def remove_dynamic_dimension(operand: Op, dimension: int) -> Op:
    """The operand with a dynamic dimension made static: its bound becomes the size.

    Elements beyond the dynamic size are those that `set_dimension_size` left out, or zeros if the
    operand is another operation's result.

    Args:
        operand: An array.
        dimension: The number of a dimension.

    Returns:
        The array, static in that dimension.

    Example:
        >>> x = Builder("example").parameter(0, "f32[<=3]")
        >>> ops.remove_dynamic_dimension(x, 0)
        %set-dimension-size.3: f32[3]

    See https://openxla.org/xla/operation_semantics#setdimensionsize
    """
    attributes = SetDimensionSizeAttributes(dimension, is_dynamic=False)
    try:
        size = operand.shape.dimension(dimension)
    except ShapeError as error:
        raise error.at(Opcode.SET_DIMENSION_SIZE) from None
    bound = operand.builder.constant(np.int32(size))
    return operand.builder.instruction(Opcode.SET_DIMENSION_SIZE, [operand, bound], attributes)


@checked
def roll(operand: Op, shift: Op | int, dimension: int) -> Op:
    """The elements shifted along a dimension; those shifted beyond the end come first.

    Semantics: numpy's roll.

    Args:
        operand: An array.
        shift: The distance towards higher indices, which may be negative: an int, or an Op of an
            integer scalar.
        dimension: The dimension; a negative number counts from the end.

    Returns:
        The shifted elements, of the operand's shape.

    Raises:
        ShapeError: The array has no such dimension, or `shift` is no integer scalar.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.roll(x, 1, 0)
        %slice.3: f32[2,3]
    """
    with errors_at("roll"):
        number = operand.shape.dimension_number(dimension)
    size = operand.shape.dimensions[number]
    if not size:
        return operand
    twice = concat_in_dim([operand, operand], number)
    if isinstance(shift, int):
        start = -shift % size
        return slice_in_dim(twice, start, start + size, 1, number) if start else operand
    wide = shift.astype("s64")
    starts: list[Op | Scalar] = [np.int64(0)] * operand.shape.rank
    starts[number] = floor_mod(-wide, size)
    return dynamic_slice(twice, starts, operand.shape.dimensions)


def _with_size_found(operand: Op, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes, with -1 replaced by the size that makes the counts equal."""
    if -1 not in sizes:
        return sizes
    rest = math.prod(size for size in sizes if size != -1)
    count = operand.shape.element_count
    if sizes.count(-1) > 1 or rest <= 0 or count % rest:
        raise ShapeError(
            "one size may be -1, where the others divide the number of elements, got "
            f"{{{','.join(map(str, sizes))}}} for {count} elements of {operand.shape}"
        ).at(Opcode.RESHAPE)
    return tuple(count // rest if size == -1 else size for size in sizes)
