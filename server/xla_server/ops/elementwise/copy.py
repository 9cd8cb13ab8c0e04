"""copy: the operand itself, as values are never written to.

Semantics: XLA's kCopy.
"""

from collections.abc import Sequence

from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Frame, Value


def evaluate_copy(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """The operand."""
    return operands[0]
