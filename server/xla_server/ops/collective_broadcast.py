"""The result of collective-broadcast on one replica."""

from xla_server.ir.module import HloInstruction
from xla_server.ops.collective import Exchange, Participant, all_operands, require_alone


def collective_broadcast(instruction: HloInstruction, me: Participant) -> Exchange:
    """The operands.

    In XLA who is in no group gets zeros. Groups that do not name the only replica name others,
    which there are not.
    """
    require_alone(instruction.attributes.participants, me, has_global_ids=False)
    return all_operands(instruction)
