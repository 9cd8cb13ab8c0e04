"""The evaluator of ragged-dot: one dot for each group, of which the group's part is kept."""

from collections.abc import Sequence
from typing import cast

import numpy as np

from xla_contract.ops.contraction.ragged_dot import RaggedDotAttributes, RaggedMode
from xla_server.ir.module import HloInstruction
from xla_server.ops.contraction.dot import product
from xla_server.ops.evaluation import Array, Frame, Value
from xla_server.ops.numerics.indices import spread


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
            left = _masked(lhs, members, attributes.cut(lhs.ndim))
            right = _masked(rhs, members, attributes.cut_of_rhs(lhs.ndim))
            result[group] = product(left, right, numbers, types)
        else:
            own = np.asarray(rhs.take(group, cast(int, attributes.rhs_group_dimension)))
            found = product(lhs, own, attributes.numbers_of_group, types)
            mask = spread(members, attributes.cut_of_result(lhs.ndim), result.ndim)
            result = np.where(mask, found, result)
    return result


def _members(lhs: Array, sizes: Array, attributes: RaggedDotAttributes) -> Array:
    """Return for each group whether it has each position of the prefix and ragged dimensions."""
    prefix = [lhs.shape[number] for number in attributes.prefix(lhs.ndim)]
    wide = np.broadcast_to(sizes, (*prefix, sizes.shape[-1])).astype(np.int64)
    stops = np.cumsum(wide, -1)
    positions = np.arange(lhs.shape[attributes.lhs_ragged_dimension])
    inside = (positions >= (stops - wide)[..., None]) & (positions < stops[..., None])
    return np.moveaxis(inside, -2, 0)


def _masked(operand: Array, members: Array, dimensions: Sequence[int]) -> Array:
    mask = spread(members, dimensions, operand.ndim)
    return np.where(mask, operand, np.zeros((), operand.dtype))
