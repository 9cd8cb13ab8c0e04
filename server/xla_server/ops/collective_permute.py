"""The evaluators of collective-permute, whole and in halves."""

from collections.abc import Sequence

from xla_contract.ops.collective_permute import CollectivePermuteAttributes
from xla_contract.types.replica_groups import group_mode
from xla_server.ir.module import HloInstruction
from xla_server.ops.collective import alone_or_tuple, my_number, only_one, zeros
from xla_server.ops.evaluation import Frame, Value


def evaluate_collective_permute(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """The operands if they are sent to where they are; zeros if nothing is sent at all.

    Raises InvalidArgumentError for a pair with a source or a target that does not exist.
    """
    attributes: CollectivePermuteAttributes = instruction.attributes
    me = my_number(group_mode(attributes.channel_id, None), frame)
    for source, target in attributes.pairs:
        if (source, target) != (me, me):
            raise only_one(me, f"pair {{{source},{target}}}")
    if not attributes.pairs:
        return alone_or_tuple(tuple(zeros(operand.shape) for operand in instruction.operands))
    return alone_or_tuple(tuple(operands))


def evaluate_collective_permute_start(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """The operands, the result, and zeros for whatever else was declared."""
    attributes: CollectivePermuteAttributes = instruction.attributes
    result = evaluate_collective_permute(instruction, operands, frame)
    return alone_or_tuple(tuple(operands)), result, *map(zeros, attributes.context)
