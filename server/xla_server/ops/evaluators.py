"""Table of evaluators by opcode, with reasons for opcodes without one."""

from collections.abc import Mapping

from xla_contract.errors import UnimplementedError
from xla_contract.ops.definitions import UNDEFINED
from xla_contract.types.opcode import Opcode
from xla_server.ops.collectives import replica_id
from xla_server.ops.collectives.collective import evaluate_done, evaluator_of
from xla_server.ops.collectives.exchanges import EXCHANGES
from xla_server.ops.contraction import convolution, dot, ragged_dot, scaled_dot
from xla_server.ops.control import (
    asynchronous,
    call,
    conditional,
    constant,
    copy_halves,
    ordering,
    while_loop,
)
from xla_server.ops.control import tuple as tuple_
from xla_server.ops.elementwise import (
    bitcast_convert,
    compare,
    convert,
    copy,
    elementwise,
    reduce_precision,
    stochastic_convert,
)
from xla_server.ops.elementwise import map as map_
from xla_server.ops.evaluation import Evaluator
from xla_server.ops.feeds import infeed, outfeed, send_recv
from xla_server.ops.indexing import dynamic_slice, gather, scatter, sort, topk
from xla_server.ops.linear_algebra import cholesky, fft, triangular_solve
from xla_server.ops.random import rng, rng_bit_generator, rng_get_and_update_state
from xla_server.ops.reduction import batch_norm, reduce, reduce_window, scan, select_and_scatter
from xla_server.ops.shaping import (
    bitcast,
    broadcast,
    concatenate,
    dynamic_reshape,
    get_dimension_size,
    iota,
    pad,
    reshape,
    reverse,
    set_dimension_size,
    transpose,
)
from xla_server.ops.shaping import slice as slice_

EVALUATORS: Mapping[Opcode, Evaluator] = {
    # Elementwise operations, movement of data, tuples and effects.
    **elementwise.EVALUATORS,
    Opcode.ADD_DEPENDENCY: ordering.evaluate_first_operand,
    Opcode.AFTER_ALL: ordering.evaluate_after_all,
    Opcode.BITCAST: bitcast.evaluate_bitcast,
    Opcode.BITCAST_CONVERT: bitcast_convert.evaluate_bitcast_convert,
    Opcode.BROADCAST: broadcast.evaluate_broadcast,
    Opcode.COMPARE: compare.evaluate_compare,
    Opcode.CONCATENATE: concatenate.evaluate_concatenate,
    Opcode.CONSTANT: constant.evaluate_constant,
    Opcode.CONVERT: convert.evaluate_convert,
    Opcode.COPY: copy.evaluate_copy,
    Opcode.DOMAIN: ordering.evaluate_first_operand,
    Opcode.DYNAMIC_RESHAPE: dynamic_reshape.evaluate_dynamic_reshape,
    Opcode.DYNAMIC_SLICE: dynamic_slice.evaluate_dynamic_slice,
    Opcode.DYNAMIC_UPDATE_SLICE: dynamic_slice.evaluate_dynamic_update_slice,
    Opcode.GET_DIMENSION_SIZE: get_dimension_size.evaluate_get_dimension_size,
    Opcode.GET_TUPLE_ELEMENT: tuple_.evaluate_get_tuple_element,
    Opcode.INFEED: infeed.evaluate_infeed,
    Opcode.IOTA: iota.evaluate_iota,
    Opcode.OPT_BARRIER: ordering.evaluate_first_operand,
    Opcode.OUTFEED: outfeed.evaluate_outfeed,
    Opcode.PAD: pad.evaluate_pad,
    Opcode.PARTITION_ID: replica_id.evaluate_partition_id,
    Opcode.REDUCE_PRECISION: reduce_precision.evaluate_reduce_precision,
    Opcode.REPLICA_ID: replica_id.evaluate_replica_id,
    Opcode.RESHAPE: reshape.evaluate_reshape,
    Opcode.REVERSE: reverse.evaluate_reverse,
    Opcode.SET_DIMENSION_SIZE: set_dimension_size.evaluate_set_dimension_size,
    Opcode.SLICE: slice_.evaluate_slice,
    Opcode.STOCHASTIC_CONVERT: stochastic_convert.evaluate_stochastic_convert,
    Opcode.TRANSPOSE: transpose.evaluate_transpose,
    Opcode.TUPLE: tuple_.evaluate_tuple,
    # Operations that contract, reduce, move by index or call computations.
    Opcode.DOT: dot.evaluate_dot,
    Opcode.RAGGED_DOT: ragged_dot.evaluate_ragged_dot,
    Opcode.CONVOLUTION: convolution.evaluate_convolution,
    Opcode.REDUCE: reduce.evaluate_reduce,
    Opcode.REDUCE_WINDOW: reduce_window.evaluate_reduce_window,
    Opcode.SELECT_AND_SCATTER: select_and_scatter.evaluate_select_and_scatter,
    Opcode.WHILE: while_loop.evaluate_while,
    Opcode.CONDITIONAL: conditional.evaluate_conditional,
    Opcode.CALL: call.evaluate_call,
    Opcode.MAP: map_.evaluate_map,
    Opcode.FUSION: call.evaluate_call,
    Opcode.SORT: sort.evaluate_sort,
    Opcode.GATHER: gather.evaluate_gather,
    Opcode.SCATTER: scatter.evaluate_scatter,
    Opcode.SCALED_DOT: scaled_dot.evaluate_scaled_dot,
    Opcode.SCAN: scan.evaluate_scan,
    Opcode.RNG: rng.evaluate_rng,
    Opcode.RNG_BIT_GENERATOR: rng_bit_generator.evaluate_rng_bit_generator,
    Opcode.RNG_GET_AND_UPDATE_STATE: rng_get_and_update_state.evaluate_rng_get_and_update_state,
    Opcode.BATCH_NORM_TRAINING: batch_norm.evaluate_batch_norm_training,
    Opcode.BATCH_NORM_INFERENCE: batch_norm.evaluate_batch_norm_inference,
    Opcode.BATCH_NORM_GRAD: batch_norm.evaluate_batch_norm_grad,
    Opcode.CHOLESKY: cholesky.evaluate_cholesky,
    Opcode.TRIANGULAR_SOLVE: triangular_solve.evaluate_triangular_solve,
    Opcode.FFT: fft.evaluate_fft,
    Opcode.TOPK: topk.evaluate_topk,
    # Operations between replicas, and those in halves.
    **{opcode: evaluator_of(exchange) for opcode, exchange in EXCHANGES.items()},
    Opcode.ALL_GATHER_START: evaluator_of(EXCHANGES[Opcode.ALL_GATHER], is_first_half=True),
    Opcode.ALL_REDUCE_START: evaluator_of(EXCHANGES[Opcode.ALL_REDUCE]),
    Opcode.COLLECTIVE_PERMUTE_START: evaluator_of(
        EXCHANGES[Opcode.COLLECTIVE_PERMUTE], is_first_half=True
    ),
    Opcode.ALL_GATHER_DONE: evaluate_done,
    Opcode.ALL_REDUCE_DONE: ordering.evaluate_first_operand,
    Opcode.ASYNC_DONE: evaluate_done,
    Opcode.ASYNC_START: asynchronous.evaluate_async_start,
    Opcode.ASYNC_UPDATE: ordering.evaluate_first_operand,
    Opcode.COLLECTIVE_PERMUTE_DONE: evaluate_done,
    Opcode.COPY_DONE: copy_halves.evaluate_copy_done,
    Opcode.COPY_START: copy_halves.evaluate_copy_start,
    Opcode.RECV: send_recv.evaluate_recv,
    Opcode.RECV_DONE: send_recv.evaluate_recv_done,
    Opcode.SEND: send_recv.evaluate_send,
    Opcode.SEND_DONE: send_recv.evaluate_send_done,
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
