"""reshape: the elements in row-major order under other dimensions.

Semantics: XLA's Reshape.
"""

from collections.abc import Sequence

from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, Frame, Value


def evaluate_reshape(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """The operand with the dimensions of the result."""
    operand: Array = operands[0]  # type: ignore[assignment]
    return operand.reshape(instruction.shape.dimensions)
