"""get-dimension-size: the size of a dimension; of a dynamic one that at run time, as in XLA."""

import numpy as np

from xla_contract.ops.shaping.get_dimension_size import GetDimensionSizeAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, of_operands


@of_operands
def evaluate_get_dimension_size(instruction: HloInstruction, operand: Array) -> Array:
    """The size as S32."""
    attributes: GetDimensionSizeAttributes = instruction.attributes
    return np.asarray(operand.shape[attributes.dimension], np.int32)
