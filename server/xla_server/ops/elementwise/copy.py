"""copy (XLA's kCopy): the operand itself, as values are never written to."""

from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Value, of_operands


@of_operands
def evaluate_copy(_: HloInstruction, operand: Value) -> Value:
    """The operand."""
    return operand
