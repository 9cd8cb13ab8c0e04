"""The results of collective-permute, whole and in halves, on one replica."""

from xla_contract.ops.collective_permute import CollectivePermuteAttributes
from xla_contract.types.replica_groups import group_mode
from xla_server.ir.module import HloInstruction
from xla_server.ops.collective import (
    Exchange,
    Participant,
    all_operands,
    alone_or_tuple,
    my_number,
    only_one,
)


def collective_permute(instruction: HloInstruction, me: Participant) -> Exchange:
    """The operands if they are sent to where they are; zeros if nothing is sent at all.

    Raises InvalidArgumentError for a pair with a source or a target that does not exist.
    """
    attributes: CollectivePermuteAttributes = instruction.attributes
    number = my_number(group_mode(attributes.channel_id, None), me)
    for source, target in attributes.pairs:
        if (source, target) != (number, number):
            raise only_one(number, f"pair {{{source},{target}}}")
    if not attributes.pairs:
        return alone_or_tuple([operand.shape for operand in instruction.operands])
    return all_operands(instruction)


def collective_permute_start(instruction: HloInstruction, me: Participant) -> Exchange:
    """The operands, the result, and zeros for whatever else was declared."""
    attributes: CollectivePermuteAttributes = instruction.attributes
    result = collective_permute(instruction, me)
    return all_operands(instruction), result, *attributes.context
