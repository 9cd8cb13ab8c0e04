"""set-dimension-size: the operand with another size in one dimension.

Semantics: XLA's SetDimensionSize: the operand is passed on, and from then on only so many elements
count. A larger size brings elements back that an earlier one hid; behind the result of any other
operation there are zeros.
"""

from xla_contract.errors import InvalidArgumentError
from xla_contract.ops.shaping.set_dimension_size import SetDimensionSizeAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, of_operands
from xla_server.ops.numerics.dynamic_bounds import padded, part_of, whole_of, with_size


@of_operands
def evaluate_set_dimension_size(
    instruction: HloInstruction, operand: Array, new_size: Array
) -> Array:
    """A view of the operand; InvalidArgumentError for a size below 0 or above the bound."""
    attributes: SetDimensionSizeAttributes = instruction.attributes
    size = int(new_size)
    bounds, dimension = instruction.shape.dimensions, attributes.dimension
    if not 0 <= size <= bounds[dimension]:
        raise InvalidArgumentError(
            f"the size must be in [0, {bounds[dimension]}], got {size} for dimension {dimension} "
            f"of {instruction.shape.without_layout()}"
        )
    whole = whole_of(operand)
    if size > whole.shape[dimension]:
        whole = padded(whole, with_size(whole.shape, dimension, bounds[dimension]))
    return part_of(whole, with_size(operand.shape, dimension, size))
