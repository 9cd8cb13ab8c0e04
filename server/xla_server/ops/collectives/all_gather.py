"""all-gather: the operands of a group joined along a dimension, in the order of the group."""

from collections.abc import Sequence

from xla_server.ir.module import HloInstruction
from xla_server.ops.collectives.collective import Collective, Group, block
from xla_server.ops.evaluation import Array, Route
from xla_server.ops.numerics.dynamic_bounds import with_size


def _fill(group: Group, position: int) -> None:
    for member in range(position, len(group.parts), group.shares):
        for number, operand in enumerate(group.parts[member].operands):
            for result in group.results(number):
                _part(group, result, member)[...] = operand


def _part(group: Group, result: Array, position: int) -> Array:
    return block(result, group.instruction.attributes.dimension, len(group.parts), position)


def _sizes(
    instruction: HloInstruction, operands: Sequence[Array], count: int
) -> list[tuple[int, ...]]:
    d = instruction.attributes.dimension
    return [with_size(each.shape, d, each.shape[d] * count) for each in operands]


ALL_GATHER = Collective(_fill, Route.WHOLE, None, _part, _sizes, is_common=True)
