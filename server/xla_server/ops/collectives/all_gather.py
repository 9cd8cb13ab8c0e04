"""all-gather: the operands of a group joined along a dimension, in the order of the group."""

from collections.abc import Sequence

from xla_server.ir.module import HloInstruction
from xla_server.ops.collectives.collective import Exchange, Group
from xla_server.ops.evaluation import Array


def _fill(group: Group, place: int) -> None:
    dimension = group.instruction.attributes.dimension
    for member in range(place, len(group.parts), group.shares):
        for number, operand in enumerate(group.parts[member].operands):
            size = operand.shape[dimension]
            index = (slice(None),) * dimension + (slice(member * size, (member + 1) * size),)
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
