"""The result of reduce-scatter on one replica."""

from xla_server.ir.module import HloInstruction
from xla_server.ops.collective import Exchange, Participant, all_operands, require_one_part


def reduce_scatter(instruction: HloInstruction, me: Participant) -> Exchange:
    """The operands: one participant keeps all of them."""
    require_one_part(instruction, instruction.attributes.scattered, me)
    return all_operands(instruction)
