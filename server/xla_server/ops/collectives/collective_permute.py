"""collective-permute: operands sent along pairs; a participant that is no target gets zeros.

Participants connected by pairs, directly or through others, meet; all others continue.
"""

from collections.abc import Sequence

from xla_server.ir.analysis.participants import pairs_of
from xla_server.ops.collectives.collective import Collective, Group, Read
from xla_server.ops.evaluation import Array, Route


def _fill(group: Group, position: int) -> None:
    me = group.members[position]
    pairs = pairs_of(group.instruction, group.frame.participants.grid)
    source = next((source for source, target in pairs if target == me), None)
    for number, result in enumerate(group.parts[position].results):
        if source is None:
            result[...] = 0
        else:
            result[...] = group.parts[group.members.index(source)].operands[number]


def _reads(read: Read) -> Sequence[Array]:
    pair = read.members[read.source], read.members[read.target]
    return read.operands if pair in pairs_of(read.instruction, read.grid) else ()


COLLECTIVE_PERMUTE = Collective(_fill, Route.PARTS, _reads)
