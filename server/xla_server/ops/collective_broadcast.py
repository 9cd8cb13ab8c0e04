"""The result of collective-broadcast on one replica."""

from xla_server.ir.module import HloInstruction
from xla_server.ops.collective import Exchange, Participant, all_operands, require_alone


def collective_broadcast(instruction: HloInstruction, me: Participant) -> Exchange:
    """The operands.

    In XLA a participant of no group gets zeros. Groups without the only replica name replicas that
    do not exist.
    """
    require_alone(instruction.attributes.participants, me, has_global_ids=False)
    return all_operands(instruction)
