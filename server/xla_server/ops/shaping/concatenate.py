"""concatenate (XLA's ConcatInDim): arrays one behind the other."""

import numpy as np

from xla_contract.ops.shaping.concatenate import ConcatenateAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, of_operands


@of_operands
def evaluate_concatenate(instruction: HloInstruction, *operands: Array) -> Array:
    """The operands joined along the dimension."""
    attributes: ConcatenateAttributes = instruction.attributes
    return np.concatenate(operands, attributes.dimension)
