"""opt-barrier, add-dependency, domain and after-all: nothing is computed.

Semantics: XLA's OptimizationBarrier and AfterAll; the run evaluates in the order that operands
demand, so waiting is done by the time these are reached.
"""

from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import TOKEN, Value, of_operands


@of_operands
def evaluate_first_operand(_: HloInstruction, first: Value, *__: Value) -> Value:
    """The value that is passed through."""
    return first


@of_operands
def evaluate_after_all(*_: object) -> Value:
    """A token."""
    return TOKEN
