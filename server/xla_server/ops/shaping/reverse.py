"""reverse (XLA's Rev): a view that is back to front along some dimensions."""

import numpy as np

from xla_contract.ops.shaping.reverse import ReverseAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, of_operands


@of_operands
def evaluate_reverse(instruction: HloInstruction, operand: Array) -> Array:
    """The operand flipped along each of the dimensions."""
    attributes: ReverseAttributes = instruction.attributes
    # `flip` returns a scalar for an array of rank 0.
    return np.asarray(np.flip(operand, attributes.dimensions))
