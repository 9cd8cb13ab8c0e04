"""The evaluator of collective-broadcast."""

from collections.abc import Sequence

from xla_contract.ops.collective_broadcast import CollectiveBroadcastAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.collective import alone_or_tuple, require_alone
from xla_server.ops.evaluation import Frame, Value


def evaluate_collective_broadcast(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """The operands.

    In XLA who is in no group gets zeros. Groups that do not name the only replica name others,
    which there are not.
    """
    attributes: CollectiveBroadcastAttributes = instruction.attributes
    require_alone(attributes.participants, frame, has_global_ids=False)
    return alone_or_tuple(tuple(operands))
