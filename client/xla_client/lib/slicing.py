"""Slices along some dimensions, whole along the others, read and written.

Start indices known when the program is written are ints; the functions called `dynamic_...` take
scalar Ops, and move a slice that would reach outside to the edge, as `ops.dynamic_slice` does.
"""

from collections.abc import Sequence

import numpy as np

from xla_client import ops
from xla_client.builder import Dimensions, Op, as_sequence, integers
from xla_client.coercion.checked import checked
from xla_client.coercion.operands import Operands
from xla_contract.dimension_numbers import GatherDimensionNumbers
from xla_contract.errors import ShapeError


@checked
def slice_in_minor_dims(operand: Op, start: Dimensions, end: Dimensions) -> Op:
    """The elements from start up to end in the last dimensions, one entry for each of them."""
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
    """The operand with `update` written at `start`, one entry per dimension.

    Raises ShapeError where it would reach outside.
    """
    start = integers(start)
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
    """`update_slice` with `start` for the last dimensions only, 0 before them."""
    start = integers(start)
    major = _major("dynamic-update-slice", operand, start)
    return update_slice(operand, update, (*major, *start))


@checked
def dynamic_slice_in_minor_dims(operand: Op, starts: Operands, sizes: Dimensions) -> Op:
    """A slice of these sizes in the last dimensions."""
    starts = as_sequence(starts)
    sizes = integers(sizes)
    major = _major("dynamic-slice", operand, starts)
    whole = operand.shape.dimensions[: len(major)]
    zeros = _zeros(operand, len(major), starts)
    return ops.dynamic_slice(operand, [*zeros, *starts], (*whole, *sizes))


@checked
def dynamic_update_slice_in_minor_dims(operand: Op, update: Op, starts: Operands) -> Op:
    """The operand with `update` written at `starts` in the last dimensions."""
    starts = as_sequence(starts)
    major = _major("dynamic-update-slice", operand, starts)
    zeros = _zeros(operand, len(major), starts)
    return ops.dynamic_update_slice(operand, update, [*zeros, *starts])


@checked
def dynamic_slice_in_dim(operand: Op, start: Op, size: int, dimension: int = 0) -> Op:
    """A slice of this size along one dimension."""
    number = operand.shape.dimension_number(dimension)
    sizes = list(operand.shape.dimensions)
    sizes[number] = size
    return ops.dynamic_slice(operand, _starts(operand, start, number), sizes)


@checked
def dynamic_update_slice_in_dim(operand: Op, update: Op, start: Op, dimension: int = 0) -> Op:
    """The operand with `update` written from `start` on along one dimension."""
    number = operand.shape.dimension_number(dimension)
    return ops.dynamic_update_slice(operand, update, _starts(operand, start, number))


@checked
def index_in_dim(operand: Op, index: int, dimension: int = 0, *, keep_dimension: bool = True) -> Op:
    """What is at one index of a dimension; a negative one counts from the end.

    Raises ShapeError for an index outside the dimension.
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
    """What is at one index of a dimension, known when the program runs."""
    number = operand.shape.dimension_number(dimension)
    part = dynamic_slice_in_dim(operand, index, 1, number)
    return part if keep_dimension else _dropped(part, number)


@checked
def dynamic_update_index_in_dim(operand: Op, update: Op, index: Op, dimension: int = 0) -> Op:
    """The operand with `update`, with or without that dimension, at one index of a dimension."""
    number = operand.shape.dimension_number(dimension)
    if update.shape.rank == operand.shape.rank - 1:
        sizes = list(update.shape.dimensions)
        update = ops.reshape(update, [*sizes[:number], 1, *sizes[number:]])
    return dynamic_update_slice_in_dim(operand, update, index, number)


@checked
def take_in_dim(operand: Op, indices: Op, dimension: int = 0) -> Op:
    """What is at each of `indices` along a dimension; their dimensions take its place.

    Indices outside are moved to the edge.
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
