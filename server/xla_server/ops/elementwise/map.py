"""The evaluator of map."""

from collections.abc import Sequence
from typing import cast

from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, Frame, Value


def evaluate_map(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """Apply the computation to all elements at once where it can be lifted, else to each."""
    (computation,) = instruction.called
    return frame.call_lifted(computation, [cast(Array, operand) for operand in operands])
