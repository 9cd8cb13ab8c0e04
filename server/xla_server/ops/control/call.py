"""The evaluator of call and fusion."""

from collections.abc import Sequence

from xla_server.ir.explicit_stack import Deep
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Frame, Value


def evaluate_call(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Deep[Value]:
    """Call the computation on the operands."""
    (computation,) = instruction.called
    return frame.enter(computation, operands)
