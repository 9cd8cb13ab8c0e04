"""The evaluator of async-start, at which the call happens."""

from collections.abc import Sequence

from xla_contract.ops.control.asynchronous import AsyncAttributes
from xla_server.ir.explicit_stack import Deep
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Frame, Value, zeros


def evaluate_async_start(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Deep[Value]:
    """The operands, the computation's result, and zeros for other declared elements."""
    attributes: AsyncAttributes = instruction.attributes
    (computation,) = instruction.called
    result: Value = yield frame.enter(computation, operands)
    return tuple(operands), result, *map(zeros, attributes.context)
