"""Table of evaluators by opcode, with reasons for opcodes without one."""

from collections.abc import Mapping

from xla_contract.errors import UnimplementedError
from xla_contract.ops.definitions import UNDEFINED
from xla_contract.types.opcode import Opcode
from xla_server.ops.collectives.collective import evaluate_done, evaluator_of, evaluator_of_pair
from xla_server.ops.collectives.exchanges import EXCHANGES
from xla_server.ops.collectives.replica_id import evaluate_partition_id, evaluate_replica_id
from xla_server.ops.contraction.convolution import evaluate_convolution
from xla_server.ops.contraction.dot import evaluate_dot
from xla_server.ops.contraction.ragged_dot import evaluate_ragged_dot
from xla_server.ops.contraction.scaled_dot import evaluate_scaled_dot
from xla_server.ops.control.asynchronous import evaluate_async_start
from xla_server.ops.control.call import evaluate_call
from xla_server.ops.control.conditional import evaluate_conditional
from xla_server.ops.control.constant import evaluate_constant
from xla_server.ops.control.copy_halves import evaluate_copy_done, evaluate_copy_start
from xla_server.ops.control.ordering import evaluate_after_all, evaluate_first_operand
from xla_server.ops.control.tuple import evaluate_get_tuple_element, evaluate_tuple
from xla_server.ops.control.while_loop import evaluate_while
from xla_server.ops.elementwise import elementwise
from xla_server.ops.elementwise.bitcast_convert import evaluate_bitcast_convert
from xla_server.ops.elementwise.compare import evaluate_compare
from xla_server.ops.elementwise.convert import evaluate_convert
from xla_server.ops.elementwise.copy import evaluate_copy
from xla_server.ops.elementwise.map import evaluate_map
from xla_server.ops.elementwise.reduce_precision import evaluate_reduce_precision
from xla_server.ops.elementwise.stochastic_convert import evaluate_stochastic_convert
from xla_server.ops.evaluation import Evaluator
from xla_server.ops.feeds.infeed import evaluate_infeed
from xla_server.ops.feeds.outfeed import evaluate_outfeed
from xla_server.ops.feeds.send_recv import (
    evaluate_recv,
    evaluate_recv_done,
    evaluate_send,
    evaluate_send_done,
)
from xla_server.ops.indexing.dynamic_slice import (
    evaluate_dynamic_slice,
    evaluate_dynamic_update_slice,
)
from xla_server.ops.indexing.gather import evaluate_gather
from xla_server.ops.indexing.scatter import evaluate_scatter
from xla_server.ops.indexing.sort import evaluate_sort
from xla_server.ops.indexing.topk import evaluate_topk
from xla_server.ops.linear_algebra.cholesky import evaluate_cholesky
from xla_server.ops.linear_algebra.fft import evaluate_fft
from xla_server.ops.linear_algebra.triangular_solve import evaluate_triangular_solve
from xla_server.ops.random.rng import evaluate_rng
from xla_server.ops.random.rng_bit_generator import evaluate_rng_bit_generator
from xla_server.ops.random.rng_get_and_update_state import evaluate_rng_get_and_update_state
from xla_server.ops.reduction.batch_norm import (
    evaluate_batch_norm_grad,
    evaluate_batch_norm_inference,
    evaluate_batch_norm_training,
)
from xla_server.ops.reduction.reduce import evaluate_reduce
from xla_server.ops.reduction.reduce_window import evaluate_reduce_window
from xla_server.ops.reduction.scan import evaluate_scan
from xla_server.ops.reduction.select_and_scatter import evaluate_select_and_scatter
from xla_server.ops.shaping.bitcast import evaluate_bitcast
from xla_server.ops.shaping.broadcast import evaluate_broadcast
from xla_server.ops.shaping.concatenate import evaluate_concatenate
from xla_server.ops.shaping.dynamic_reshape import evaluate_dynamic_reshape
from xla_server.ops.shaping.get_dimension_size import evaluate_get_dimension_size
from xla_server.ops.shaping.iota import evaluate_iota
from xla_server.ops.shaping.pad import evaluate_pad
from xla_server.ops.shaping.reshape import evaluate_reshape
from xla_server.ops.shaping.reverse import evaluate_reverse
from xla_server.ops.shaping.set_dimension_size import evaluate_set_dimension_size
from xla_server.ops.shaping.slice import evaluate_slice
from xla_server.ops.shaping.transpose import evaluate_transpose

EVALUATORS: Mapping[Opcode, Evaluator] = {
    # Elementwise operations, movement of data, tuples and effects.
    **elementwise.EVALUATORS,
    Opcode.ADD_DEPENDENCY: evaluate_first_operand,
    Opcode.AFTER_ALL: evaluate_after_all,
    Opcode.BITCAST: evaluate_bitcast,
    Opcode.BITCAST_CONVERT: evaluate_bitcast_convert,
    Opcode.BROADCAST: evaluate_broadcast,
    Opcode.COMPARE: evaluate_compare,
    Opcode.CONCATENATE: evaluate_concatenate,
    Opcode.CONSTANT: evaluate_constant,
    Opcode.CONVERT: evaluate_convert,
    Opcode.COPY: evaluate_copy,
    Opcode.DOMAIN: evaluate_first_operand,
    Opcode.DYNAMIC_RESHAPE: evaluate_dynamic_reshape,
    Opcode.DYNAMIC_SLICE: evaluate_dynamic_slice,
    Opcode.DYNAMIC_UPDATE_SLICE: evaluate_dynamic_update_slice,
    Opcode.GET_DIMENSION_SIZE: evaluate_get_dimension_size,
    Opcode.GET_TUPLE_ELEMENT: evaluate_get_tuple_element,
    Opcode.INFEED: evaluate_infeed,
    Opcode.IOTA: evaluate_iota,
    Opcode.OPT_BARRIER: evaluate_first_operand,
    Opcode.OUTFEED: evaluate_outfeed,
    Opcode.PAD: evaluate_pad,
    Opcode.PARTITION_ID: evaluate_partition_id,
    Opcode.REDUCE_PRECISION: evaluate_reduce_precision,
    Opcode.REPLICA_ID: evaluate_replica_id,
    Opcode.RESHAPE: evaluate_reshape,
    Opcode.REVERSE: evaluate_reverse,
    Opcode.SET_DIMENSION_SIZE: evaluate_set_dimension_size,
    Opcode.SLICE: evaluate_slice,
    Opcode.STOCHASTIC_CONVERT: evaluate_stochastic_convert,
    Opcode.TRANSPOSE: evaluate_transpose,
    Opcode.TUPLE: evaluate_tuple,
    # Operations that contract, reduce, move by index or call computations.
    Opcode.DOT: evaluate_dot,
    Opcode.RAGGED_DOT: evaluate_ragged_dot,
    Opcode.CONVOLUTION: evaluate_convolution,
    Opcode.REDUCE: evaluate_reduce,
    Opcode.REDUCE_WINDOW: evaluate_reduce_window,
    Opcode.SELECT_AND_SCATTER: evaluate_select_and_scatter,
    Opcode.WHILE: evaluate_while,
    Opcode.CONDITIONAL: evaluate_conditional,
    Opcode.CALL: evaluate_call,
    Opcode.MAP: evaluate_map,
    Opcode.FUSION: evaluate_call,
    Opcode.SORT: evaluate_sort,
    Opcode.GATHER: evaluate_gather,
    Opcode.SCATTER: evaluate_scatter,
    Opcode.SCALED_DOT: evaluate_scaled_dot,
    Opcode.SCAN: evaluate_scan,
    Opcode.RNG: evaluate_rng,
    Opcode.RNG_BIT_GENERATOR: evaluate_rng_bit_generator,
    Opcode.RNG_GET_AND_UPDATE_STATE: evaluate_rng_get_and_update_state,
    Opcode.BATCH_NORM_TRAINING: evaluate_batch_norm_training,
    Opcode.BATCH_NORM_INFERENCE: evaluate_batch_norm_inference,
    Opcode.BATCH_NORM_GRAD: evaluate_batch_norm_grad,
    Opcode.CHOLESKY: evaluate_cholesky,
    Opcode.TRIANGULAR_SOLVE: evaluate_triangular_solve,
    Opcode.FFT: evaluate_fft,
    Opcode.TOPK: evaluate_topk,
    # Operations between replicas, and those in halves.
    **{opcode: evaluator_of(exchange) for opcode, exchange in EXCHANGES.items()},
    Opcode.ALL_GATHER_START: evaluator_of_pair(EXCHANGES[Opcode.ALL_GATHER]),
    Opcode.ALL_REDUCE_START: evaluator_of(EXCHANGES[Opcode.ALL_REDUCE]),
    Opcode.COLLECTIVE_PERMUTE_START: evaluator_of_pair(EXCHANGES[Opcode.COLLECTIVE_PERMUTE]),
    Opcode.ALL_GATHER_DONE: evaluate_done,
    Opcode.ALL_REDUCE_DONE: evaluate_first_operand,
    Opcode.ASYNC_DONE: evaluate_done,
    Opcode.ASYNC_START: evaluate_async_start,
    Opcode.ASYNC_UPDATE: evaluate_first_operand,
    Opcode.COLLECTIVE_PERMUTE_DONE: evaluate_done,
    Opcode.COPY_DONE: evaluate_copy_done,
    Opcode.COPY_START: evaluate_copy_start,
    Opcode.RECV: evaluate_recv,
    Opcode.RECV_DONE: evaluate_recv_done,
    Opcode.SEND: evaluate_send,
    Opcode.SEND_DONE: evaluate_send_done,
}
"""The evaluator of each opcode that has one."""

NOT_EVALUATED: Mapping[Opcode, str] = {
    **UNDEFINED,
    Opcode.CUSTOM_CALL: "a plan takes the evaluator from the registry of custom calls",
    Opcode.PARAMETER: "a run binds its parameters to the arguments by itself",
}
"""Reasons why the remaining opcodes have none: the two tables cover every opcode once."""


def evaluator(opcode: Opcode) -> Evaluator:
    """The evaluator of `opcode`; raises UnimplementedError saying why there is none."""
    found = EVALUATORS.get(opcode)
    if found is None:
        raise UnimplementedError(f"{NOT_EVALUATED[opcode]}, got opcode {opcode}")
    return found
