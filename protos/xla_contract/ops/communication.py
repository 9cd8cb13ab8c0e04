"""The operations between replicas, and those written as two halves or more."""

from xla_contract.ops.collectives import (
    all_gather,
    all_reduce,
    all_to_all,
    collective_broadcast,
    collective_permute,
    collective_reduce,
    ragged_all_to_all,
    reduce_scatter,
)
from xla_contract.ops.control import asynchronous, copy_halves
from xla_contract.ops.definition import OpDefinition
from xla_contract.ops.feeds import send_recv

COMMUNICATION: tuple[OpDefinition, ...] = (
    *all_gather.DEFINITIONS,
    *all_reduce.DEFINITIONS,
    all_to_all.DEFINITION,
    *asynchronous.DEFINITIONS,
    collective_broadcast.DEFINITION,
    *collective_permute.DEFINITIONS,
    collective_reduce.DEFINITION,
    *copy_halves.DEFINITIONS,
    ragged_all_to_all.DEFINITION,
    reduce_scatter.DEFINITION,
    *send_recv.DEFINITIONS,
)
