"""The evaluator of dot: one matrix product for each batch element."""

import math
from collections.abc import Sequence

from xla_contract.ops.contraction.dot import DotAttributes, roles_of
from xla_contract.types.dimension_numbers import DotDimensionNumbers
from xla_contract.types.element_type import ElementType
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, of_operands
from xla_server.ops.numerics.products import compute_type, matrix_product, to_result
from xla_server.ops.numerics.scalar_function import round_to


@of_operands
def evaluate_dot(instruction: HloInstruction, lhs: Array, rhs: Array) -> Array:
    """Sums of products in at least f32, converted once to the result type; integers wrap."""
    attributes: DotAttributes = instruction.attributes
    types = [operand.shape.element_type for operand in instruction.operands]
    types.append(instruction.shape.element_type)
    return product(lhs, rhs, attributes.dimension_numbers, types)


def product(
    lhs: Array, rhs: Array, numbers: DotDimensionNumbers, types: Sequence[ElementType]
) -> Array:
    """The dot of two arrays; `types` are those of lhs, rhs and the result."""
    of_lhs, of_rhs = roles_of(numbers, lhs.ndim, rhs.ndim)
    depth = math.prod(lhs.shape[number] for number in of_lhs.contracting)
    wide = compute_type(types, depth)
    batch_sizes = [lhs.shape[number] for number in of_lhs.batch]
    row_sizes = [lhs.shape[number] for number in of_lhs.free]
    column_sizes = [rhs.shape[number] for number in of_rhs.free]
    count, rows, columns = map(math.prod, (batch_sizes, row_sizes, column_sizes))
    left = lhs.transpose(of_lhs.batch + of_lhs.free + of_lhs.contracting).reshape(
        count, rows, depth
    )
    right = rhs.transpose(of_rhs.batch + of_rhs.contracting + of_rhs.free)
    right = right.reshape(count, depth, columns)
    sums = matrix_product(round_to(left, wide), round_to(right, wide))
    return to_result(sums, types).reshape(batch_sizes + row_sizes + column_sizes)
