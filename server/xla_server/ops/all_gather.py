"""all-gather: the operands of a group joined along a dimension, in the order of the group."""

from collections.abc import Sequence

from xla_server.ir.module import HloInstruction
from xla_server.ops.collective import Exchange, Group
from xla_server.ops.evaluation import Array


def _fill(group: Group, place: int) -> None:
    dimension = group.instruction.attributes.dimension
    for number, operand in enumerate(group.parts[place].operands):
        part = operand.shape[dimension]
        index = (slice(None),) * dimension + (slice(place * part, (place + 1) * part),)
        for result in group.results(number):
            result[index] = operand


def _sizes(
    instruction: HloInstruction, operands: Sequence[Array], count: int
) -> list[tuple[int, ...]]:
    dimension = instruction.attributes.dimension
    return [
        tuple(size * (count if number == dimension else 1) for number, size in enumerate(o.shape))
        for o in operands
    ]


ALL_GATHER = Exchange(_fill, _sizes, is_common=True)
