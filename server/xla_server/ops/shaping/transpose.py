"""transpose (XLA's Transpose): a view with the dimensions in another order."""

from xla_contract.ops.shaping.transpose import TransposeAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, of_operands


@of_operands
def evaluate_transpose(instruction: HloInstruction, operand: Array) -> Array:
    """The operand with dimension permutation[i] at position i."""
    attributes: TransposeAttributes = instruction.attributes
    return operand.transpose(attributes.permutation)
