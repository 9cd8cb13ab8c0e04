"""The evaluator of while."""

from collections.abc import Sequence

from xla_server.ir.explicit_stack import Deep
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Frame, Value


def evaluate_while(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Deep[Value]:
    """Run the body while the condition holds; cancellation is checked in each iteration."""
    body, condition = instruction.called
    (carried,) = operands
    while (yield frame.enter(condition, (carried,))):
        frame.check_cancelled()
        carried = yield frame.enter(body, (carried,))
    return carried
