"""all-to-all: part j of member i becomes part i of member j, in blocks or whole operands."""

from collections.abc import Sequence

from xla_server.ops.collectives.collective import Collective, Group, Read, block
from xla_server.ops.evaluation import Array, Route


def _fill(group: Group, position: int) -> None:
    dimension = group.instruction.attributes.split_dimension
    mine, count = group.parts[position].results, len(group.parts)
    for number, part in enumerate(group.parts):
        if dimension is None:
            mine[number][...] = part.operands[position]
        else:
            received = block(part.operands[0], dimension, count, position)
            block(mine[0], dimension, count, number)[...] = received


def _reads(read: Read) -> Sequence[Array]:
    dimension = read.instruction.attributes.split_dimension
    if dimension is None:
        return [read.operands[read.target]]
    return [block(read.operands[0], dimension, len(read.members), read.target)]


ALL_TO_ALL = Collective(_fill, Route.PARTS, _reads)
