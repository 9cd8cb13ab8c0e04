"""The evaluator of all-reduce and of its first half."""

from collections.abc import Sequence

from xla_contract.ops.all_reduce import AllReduceAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.collective import alone_or_tuple, require_alone
from xla_server.ops.evaluation import Frame, Value


def evaluate_all_reduce(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """The operands: one participant has nothing to combine them with."""
    attributes: AllReduceAttributes = instruction.attributes
    require_alone(attributes.participants, frame)
    return alone_or_tuple(tuple(operands))
