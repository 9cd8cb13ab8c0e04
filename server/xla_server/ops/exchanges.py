"""The results of operations between replicas, for the evaluators and for the compiler."""

from collections.abc import Mapping
from types import MappingProxyType

from xla_contract.types.opcode import Opcode
from xla_server.ops.all_gather import all_gather, all_gather_start
from xla_server.ops.all_to_all import all_to_all
from xla_server.ops.collective import ExchangeRule, reduction
from xla_server.ops.collective_broadcast import collective_broadcast
from xla_server.ops.collective_permute import collective_permute, collective_permute_start
from xla_server.ops.reduce_scatter import reduce_scatter

EXCHANGES: Mapping[Opcode, ExchangeRule] = MappingProxyType(
    {
        Opcode.ALL_GATHER: all_gather,
        Opcode.ALL_GATHER_START: all_gather_start,
        Opcode.ALL_REDUCE: reduction,
        Opcode.ALL_REDUCE_START: reduction,
        Opcode.ALL_TO_ALL: all_to_all,
        Opcode.COLLECTIVE_BROADCAST: collective_broadcast,
        Opcode.COLLECTIVE_PERMUTE: collective_permute,
        Opcode.COLLECTIVE_PERMUTE_START: collective_permute_start,
        Opcode.COLLECTIVE_REDUCE: reduction,
        Opcode.REDUCE_SCATTER: reduce_scatter,
    }
)
