"""The evaluators of copy-start and copy-done; values are never written to, so none is copied."""

import numpy as np

from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Value, of_operands


@of_operands
def evaluate_copy_start(_: HloInstruction, operand: Value) -> Value:
    """The copy, the operand and a context."""
    return operand, operand, np.zeros((), np.uint32)


@of_operands
def evaluate_copy_done(_: HloInstruction, start: tuple[Value, ...]) -> Value:
    """The copy."""
    return start[0]
