"""RandomState: the target that rng is expanded with; it draws a generator's state."""

from collections.abc import Sequence

from xla_server.custom_calls.target import CustomCallTarget, require_no_operands, require_result
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Frame, Value
from xla_server.ops.random.rng import STATE, drawn_state


def check(instruction: HloInstruction) -> None:
    """No operands, and the state's shape."""
    require_no_operands(instruction)
    require_result(instruction, STATE)


def evaluate(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """Return the next state of the execution's random source, a different one each time."""
    return drawn_state(frame)


TARGET = CustomCallTarget("RandomState", evaluate, check)
