"""The evaluator of while."""

from collections.abc import Sequence

from xla_server.ir.explicit_stack import Deep
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Frame, Value


def evaluate_while(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Deep[Value]:
    """Apply the body for as long as the condition holds; each trip may be cancelled."""
    body, condition = instruction.called
    (carried,) = operands
    while (yield frame.enter(condition, (carried,))):
        frame.check_cancelled()
        carried = yield frame.enter(body, (carried,))
    return carried
