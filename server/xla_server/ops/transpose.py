"""transpose: a view with the dimensions in another order.

Semantics: XLA's Transpose.
"""

from collections.abc import Sequence

from xla_contract.ops.transpose import TransposeAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, Frame, Value


def evaluate_transpose(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """The operand with dimension permutation[i] at place i."""
    attributes: TransposeAttributes = instruction.attributes
    operand: Array = operands[0]  # type: ignore[assignment]
    return operand.transpose(attributes.permutation)
