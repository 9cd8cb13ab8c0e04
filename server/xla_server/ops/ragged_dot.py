"""The evaluator of ragged-dot: one dot for each group, of which the group's part is kept."""

import dataclasses
from collections.abc import Sequence
from typing import cast

import numpy as np

from xla_contract.ops.dot import free_dimensions
from xla_contract.ops.ragged_dot import RaggedDotAttributes, RaggedMode
from xla_contract.types.dimension_numbers import DotDimensionNumbers
from xla_server.ir.module import HloInstruction
from xla_server.ops.dot import product
from xla_server.ops.evaluation import Array, Frame, Value


def evaluate_ragged_dot(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """Groups of rows times their own matrices, or a product per group; 0 outside all groups."""
    attributes: RaggedDotAttributes = instruction.attributes
    lhs, rhs, sizes = (cast(Array, operand) for operand in operands)
    types = [operand.shape.element_type for operand in instruction.operands[:2]]
    types.append(instruction.shape.element_type)
    numbers = attributes.dimension_numbers
    if attributes.mode is RaggedMode.BATCH:
        return product(lhs, rhs, numbers, types)
    result = np.zeros(instruction.shape.dimensions, types[2].dtype)
    for group, members in enumerate(_members(lhs, sizes, attributes)):
        frame.check_cancelled()
        if attributes.mode is RaggedMode.CONTRACTING:
            parts = _cut(lhs, rhs, members, attributes)
            result[group] = product(*parts, numbers, types)
        else:
            own = np.asarray(rhs.take(group, cast(int, attributes.rhs_group_dimension)))
            found = product(lhs, own, _without_groups(attributes), types)
            places = [
                _rank_in_result(n, lhs.ndim, numbers) for n in _cut_dimensions(lhs, attributes)
            ]
            result = np.where(_spread(members, places, result.ndim), found, result)
    return result


def _members(lhs: Array, sizes: Array, attributes: RaggedDotAttributes) -> Array:
    """Return for each group whether it has each position of the prefix and ragged dimensions."""
    prefix = [lhs.shape[number] for number in attributes.prefix(lhs.ndim)]
    wide = np.broadcast_to(sizes, (*prefix, sizes.shape[-1])).astype(np.int64)
    stops = np.cumsum(wide, -1)
    places = np.arange(lhs.shape[attributes.lhs_ragged_dimension])
    inside = (places >= (stops - wide)[..., None]) & (places < stops[..., None])
    return np.moveaxis(inside, -2, 0)


def _cut_dimensions(lhs: Array, attributes: RaggedDotAttributes) -> list[int]:
    return [*attributes.prefix(lhs.ndim), attributes.lhs_ragged_dimension]


def _cut(
    lhs: Array, rhs: Array, members: Array, attributes: RaggedDotAttributes
) -> tuple[Array, Array]:
    numbers = attributes.dimension_numbers
    left = (*numbers.lhs_batch_dimensions, *numbers.lhs_contracting_dimensions)
    right = (*numbers.rhs_batch_dimensions, *numbers.rhs_contracting_dimensions)
    here = _cut_dimensions(lhs, attributes)
    there = [right[left.index(number)] for number in here]
    return (
        np.where(_spread(members, here, lhs.ndim), lhs, np.zeros((), lhs.dtype)),
        np.where(_spread(members, there, rhs.ndim), rhs, np.zeros((), rhs.dtype)),
    )


def _spread(members: Array, dimensions: Sequence[int], rank: int) -> Array:
    """`members`, whose dimensions those of an array of this rank are, ready to be broadcast."""
    sizes = [1] * rank
    for number, size in zip(dimensions, members.shape, strict=True):
        sizes[number] = size
    return members.transpose(np.argsort(dimensions)).reshape(sizes)


def _rank_in_result(number: int, lhs_rank: int, numbers: DotDimensionNumbers) -> int:
    batch = numbers.lhs_batch_dimensions
    free = free_dimensions(lhs_rank, numbers.lhs_contracting_dimensions, batch)
    return (*batch, *free).index(number)


def _without_groups(attributes: RaggedDotAttributes) -> DotDimensionNumbers:
    group = cast(int, attributes.rhs_group_dimension)
    numbers = attributes.dimension_numbers

    def moved(dimensions: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(number - (number > group) for number in dimensions)

    return dataclasses.replace(
        numbers,
        rhs_contracting_dimensions=moved(numbers.rhs_contracting_dimensions),
        rhs_batch_dimensions=moved(numbers.rhs_batch_dimensions),
    )
