"""reduce-scatter: operands reduced over a group, each of whose members keeps its block."""

from collections.abc import Sequence

from xla_server.ir.module import HloInstruction
from xla_server.ops.collectives.collective import Exchange, Group
from xla_server.ops.collectives.group_reduction import reduce_in_order
from xla_server.ops.evaluation import Array


def _fill(group: Group, place: int) -> None:
    (reducer,) = group.instruction.called
    dimension = group.instruction.attributes.dimension
    for number, result in enumerate(group.parts[place].results):
        if not result.size:
            continue
        outer = 1
        for size in result.shape[:dimension]:
            outer *= size
        inner = result.size // outer
        sources = [
            part.operands[number].reshape(outer, len(group.parts), inner)[:, place]
            for part in group.parts
        ]
        reduce_in_order(reducer, sources, result.reshape(outer, inner), group.frame)


def _sizes(
    instruction: HloInstruction, operands: Sequence[Array], count: int
) -> list[tuple[int, ...]]:
    dimension = instruction.attributes.dimension
    return [
        tuple(size // (count if number == dimension else 1) for number, size in enumerate(o.shape))
        for o in operands
    ]


REDUCE_SCATTER = Exchange(_fill, _sizes)
