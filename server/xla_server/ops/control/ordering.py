"""opt-barrier, add-dependency, domain and after-all: nothing is computed.

Semantics: XLA's OptimizationBarrier and AfterAll; the run evaluates in the order that operands
demand, so waiting is done by the time these are reached.
"""

from collections.abc import Sequence

from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import TOKEN, Frame, Value


def evaluate_first_operand(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """The value that is passed through."""
    return operands[0]


def evaluate_after_all(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """A token."""
    return TOKEN
