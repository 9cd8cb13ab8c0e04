"""collective-broadcast: the operands of the first of a group, for all of it.

Participants in no group get zeros. Members share the work of copying by elements.
"""

from collections.abc import Sequence

from xla_server.ops.collectives.all_reduce import part, share
from xla_server.ops.collectives.collective import Collective, Group, Read
from xla_server.ops.evaluation import Array, Route


def _fill(group: Group, position: int) -> None:
    for number, operand in enumerate(group.parts[0].operands):
        source = share(operand, group.shares, position)
        for result in group.results(number):
            share(result, group.shares, position)[...] = source


def _reads(read: Read) -> Sequence[Array]:
    if read.source:
        return ()
    return [share(operand, len(read.members), read.target) for operand in read.operands]


COLLECTIVE_BROADCAST = Collective(_fill, Route.PARTS, _reads, part, is_common=True)
