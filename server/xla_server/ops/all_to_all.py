"""The evaluator of all-to-all."""

from collections.abc import Sequence

from xla_contract.ops.all_to_all import AllToAllAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.collective import my_number, only_one, require_alone
from xla_server.ops.evaluation import Frame, Value


def evaluate_all_to_all(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """The only part, sent to itself."""
    attributes: AllToAllAttributes = instruction.attributes
    require_alone(attributes.participants, frame, has_global_ids=False)
    if attributes.split_dimension is not None:
        return operands[0]
    if len(operands) != 1:
        me = my_number(attributes.participants.mode(has_global_ids=False), frame)
        raise only_one(me, f"{len(operands)} operands to be sent to one each")
    return tuple(operands)
