"""The result of all-to-all on one replica."""

from xla_contract.ops.all_to_all import AllToAllAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.collective import Exchange, Participant, my_number, only_one, require_alone


def all_to_all(instruction: HloInstruction, me: Participant) -> Exchange:
    """The only part, sent to itself."""
    attributes: AllToAllAttributes = instruction.attributes
    require_alone(attributes.participants, me, has_global_ids=False)
    if attributes.split_dimension is not None:
        return 0
    if len(instruction.operands) != 1:
        number = my_number(attributes.participants.mode(has_global_ids=False), me)
        raise only_one(number, f"{len(instruction.operands)} operands to be sent to one each")
    return (0,)
