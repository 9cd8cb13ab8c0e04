"""The operations between participants, by opcode."""

from collections.abc import Mapping

from xla_contract.types.opcode import Opcode
from xla_server.ops.collectives.all_gather import ALL_GATHER
from xla_server.ops.collectives.all_reduce import ALL_REDUCE
from xla_server.ops.collectives.all_to_all import ALL_TO_ALL
from xla_server.ops.collectives.collective import Collective
from xla_server.ops.collectives.collective_broadcast import COLLECTIVE_BROADCAST
from xla_server.ops.collectives.collective_permute import COLLECTIVE_PERMUTE
from xla_server.ops.collectives.ragged_all_to_all import RAGGED_ALL_TO_ALL
from xla_server.ops.collectives.reduce_scatter import REDUCE_SCATTER

EXCHANGES: Mapping[Opcode, Collective] = {
    Opcode.ALL_GATHER: ALL_GATHER,
    Opcode.ALL_REDUCE: ALL_REDUCE,
    Opcode.ALL_TO_ALL: ALL_TO_ALL,
    Opcode.COLLECTIVE_BROADCAST: COLLECTIVE_BROADCAST,
    Opcode.COLLECTIVE_PERMUTE: COLLECTIVE_PERMUTE,
    # XLA leaves open what others than the root of a group get; here it is the same.
    Opcode.COLLECTIVE_REDUCE: ALL_REDUCE,
    Opcode.RAGGED_ALL_TO_ALL: RAGGED_ALL_TO_ALL,
    Opcode.REDUCE_SCATTER: REDUCE_SCATTER,
}
