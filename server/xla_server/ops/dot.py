"""The evaluator of dot: one matrix product for each batch element."""

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from xla_contract.ops.dot import DotAttributes, free_dimensions
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, Frame, Value
from xla_server.ops.products import compute_type, to_result
from xla_server.ops.scalar_function import round_to


def evaluate_dot(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """Sums of products in at least f32, rounded once to the result type; integers wrap."""
    attributes: DotAttributes = instruction.attributes
    numbers = attributes.dimension_numbers
    lhs, rhs = (cast(Array, operand) for operand in operands)
    contracted = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    batch = numbers.lhs_batch_dimensions, numbers.rhs_batch_dimensions
    left_free = free_dimensions(lhs.ndim, contracted[0], batch[0])
    right_free = free_dimensions(rhs.ndim, contracted[1], batch[1])
    depth = math.prod(lhs.shape[number] for number in contracted[0])
    result = instruction.shape.element_type
    wide = compute_type(
        instruction.operands[0].shape.element_type,
        instruction.operands[1].shape.element_type,
        result,
        depth,
    )
    batch_size = math.prod(lhs.shape[number] for number in batch[0])
    rows = math.prod(lhs.shape[number] for number in left_free)
    columns = math.prod(rhs.shape[number] for number in right_free)
    left = lhs.transpose(batch[0] + left_free + contracted[0]).reshape(batch_size, rows, depth)
    right = rhs.transpose(batch[1] + contracted[1] + right_free).reshape(batch_size, depth, columns)
    product = np.matmul(round_to(left, wide), round_to(right, wide))
    return to_result(product, result).reshape(instruction.shape.dimensions)
