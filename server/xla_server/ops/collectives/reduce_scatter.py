"""reduce-scatter: operands reduced over a group, each of whose members keeps its block."""

import math
from collections.abc import Sequence

from xla_server.ir.module import HloInstruction
from xla_server.ops.collectives.collective import Collective, Group, Read
from xla_server.ops.collectives.group_reduction import reduce_in_order
from xla_server.ops.evaluation import Array, Route
from xla_server.ops.numerics.dynamic_bounds import with_size


def _fill(group: Group, position: int) -> None:
    (reducer,) = group.instruction.called
    dimension = group.instruction.attributes.dimension
    for number, result in enumerate(group.parts[position].results):
        if result.size:
            count = len(group.parts)
            sources = [
                _block(part.operands[number], dimension, count, position) for part in group.parts
            ]
            reduce_in_order(reducer, sources, result.reshape(sources[0].shape), group.frame)


def _block(operand: Array, dimension: int, count: int, position: int) -> Array:
    """The block of one of `count` members, as a matrix."""
    outer = math.prod(operand.shape[:dimension])
    block: Array = operand.reshape(outer, count, operand.size // (outer * count))[:, position]
    return block


def _reads(read: Read) -> Sequence[Array]:
    dimension, count = read.instruction.attributes.dimension, len(read.members)
    return [_block(each, dimension, count, read.target) for each in read.operands if each.size]


def _sizes(
    instruction: HloInstruction, operands: Sequence[Array], count: int
) -> list[tuple[int, ...]]:
    d = instruction.attributes.dimension
    return [with_size(each.shape, d, each.shape[d] // count) for each in operands]


REDUCE_SCATTER = Collective(_fill, Route.PARTS, _reads, sizes=_sizes)
