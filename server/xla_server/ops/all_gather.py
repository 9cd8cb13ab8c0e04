"""The results of all-gather, whole and in halves, on one replica."""

from xla_server.ir.module import HloInstruction
from xla_server.ops.collective import Exchange, Participant, all_operands, require_one_part


def all_gather(instruction: HloInstruction, me: Participant) -> Exchange:
    """The operands, joined with nothing."""
    require_one_part(instruction, instruction.attributes.gathered, me)
    return all_operands(instruction)


def all_gather_start(instruction: HloInstruction, me: Participant) -> Exchange:
    """The operands, and the result."""
    values = all_gather(instruction, me)
    return values, values
