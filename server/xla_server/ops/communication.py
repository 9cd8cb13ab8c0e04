"""The evaluators of the operations between replicas, and of those written in halves."""

from collections.abc import Mapping
from types import MappingProxyType

from xla_contract.opcode import Opcode
from xla_server.ops.all_gather import evaluate_all_gather, evaluate_all_gather_start
from xla_server.ops.all_reduce import evaluate_all_reduce
from xla_server.ops.all_to_all import evaluate_all_to_all
from xla_server.ops.asynchronous import evaluate_async_start
from xla_server.ops.collective import evaluate_done
from xla_server.ops.collective_broadcast import evaluate_collective_broadcast
from xla_server.ops.collective_permute import (
    evaluate_collective_permute,
    evaluate_collective_permute_start,
)
from xla_server.ops.collective_reduce import evaluate_collective_reduce
from xla_server.ops.copy_halves import evaluate_copy_done, evaluate_copy_start
from xla_server.ops.evaluation import Evaluator
from xla_server.ops.ordering import evaluate_first_operand
from xla_server.ops.ragged_all_to_all import evaluate_ragged_all_to_all
from xla_server.ops.reduce_scatter import evaluate_reduce_scatter
from xla_server.ops.send_recv import (
    evaluate_recv,
    evaluate_recv_done,
    evaluate_send,
    evaluate_send_done,
)

COMMUNICATION: Mapping[Opcode, Evaluator] = MappingProxyType(
    {
        Opcode.ALL_GATHER: evaluate_all_gather,
        Opcode.ALL_GATHER_DONE: evaluate_done,
        Opcode.ALL_GATHER_START: evaluate_all_gather_start,
        Opcode.ALL_REDUCE: evaluate_all_reduce,
        Opcode.ALL_REDUCE_DONE: evaluate_first_operand,
        Opcode.ALL_REDUCE_START: evaluate_all_reduce,
        Opcode.ALL_TO_ALL: evaluate_all_to_all,
        Opcode.ASYNC_DONE: evaluate_done,
        Opcode.ASYNC_START: evaluate_async_start,
        Opcode.ASYNC_UPDATE: evaluate_first_operand,
        Opcode.COLLECTIVE_BROADCAST: evaluate_collective_broadcast,
        Opcode.COLLECTIVE_PERMUTE: evaluate_collective_permute,
        Opcode.COLLECTIVE_PERMUTE_DONE: evaluate_done,
        Opcode.COLLECTIVE_PERMUTE_START: evaluate_collective_permute_start,
        Opcode.COLLECTIVE_REDUCE: evaluate_collective_reduce,
        Opcode.COPY_DONE: evaluate_copy_done,
        Opcode.COPY_START: evaluate_copy_start,
        Opcode.RAGGED_ALL_TO_ALL: evaluate_ragged_all_to_all,
        Opcode.RECV: evaluate_recv,
        Opcode.RECV_DONE: evaluate_recv_done,
        Opcode.REDUCE_SCATTER: evaluate_reduce_scatter,
        Opcode.SEND: evaluate_send,
        Opcode.SEND_DONE: evaluate_send_done,
    }
)
