"""Table of all opcodes: the shape rule of each, or the reason why there is none yet."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xla_contract.errors import ShapeError, UnimplementedError, XlaError
from xla_contract.ops.collectives import (
    all_gather,
    all_reduce,
    all_to_all,
    collective_broadcast,
    collective_permute,
    collective_reduce,
    ragged_all_to_all,
    reduce_scatter,
    replica_id,
)
from xla_contract.ops.contraction import convolution, dot, ragged_dot, scaled_dot
from xla_contract.ops.control import (
    asynchronous,
    call,
    conditional,
    constant,
    copy_halves,
    custom_call,
    fusion,
    ordering,
    parameter,
    while_loop,
)
from xla_contract.ops.control import tuple as tuple_
from xla_contract.ops.definition import OpDefinition
from xla_contract.ops.elementwise import (
    bitcast_convert,
    compare,
    convert,
    copy,
    elementwise,
    reduce_precision,
    stochastic_convert,
)
from xla_contract.ops.elementwise import map as map_
from xla_contract.ops.feeds import infeed, outfeed, send_recv
from xla_contract.ops.indexing import dynamic_slice, gather, scatter, sort, topk
from xla_contract.ops.linear_algebra import cholesky, fft, triangular_solve
from xla_contract.ops.random import rng, rng_bit_generator, rng_get_and_update_state
from xla_contract.ops.reduction import batch_norm, reduce, reduce_window, scan, select_and_scatter
from xla_contract.ops.shaping import (
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
from xla_contract.ops.shaping import slice as slice_
from xla_contract.types.opcode import VARIADIC, Opcode
from xla_contract.types.shape import ProgramShape, Shape


def _definitions(rules: Mapping[Opcode, Callable[..., Shape]]) -> tuple[OpDefinition, ...]:
    return tuple(OpDefinition.of(opcode, rule) for opcode, rule in rules.items())


ELEMENTARY: tuple[OpDefinition, ...] = _definitions(
    {
        **elementwise.RULES,
        Opcode.SELECT: elementwise.infer_select,
        Opcode.BITCAST: bitcast.infer_bitcast,
        Opcode.BITCAST_CONVERT: bitcast_convert.infer_bitcast_convert,
        Opcode.BROADCAST: broadcast.infer_broadcast,
        Opcode.COMPARE: compare.infer_compare,
        Opcode.CONCATENATE: concatenate.infer_concatenate,
        Opcode.CONSTANT: constant.infer_constant,
        Opcode.CONVERT: convert.infer_convert,
        Opcode.COPY: copy.infer_copy,
        Opcode.CUSTOM_CALL: custom_call.infer_custom_call,
        Opcode.DYNAMIC_RESHAPE: dynamic_reshape.infer_dynamic_reshape,
        Opcode.DYNAMIC_SLICE: dynamic_slice.infer_dynamic_slice,
        Opcode.DYNAMIC_UPDATE_SLICE: dynamic_slice.infer_dynamic_update_slice,
        Opcode.GET_DIMENSION_SIZE: get_dimension_size.infer_get_dimension_size,
        Opcode.INFEED: infeed.infer_infeed,
        Opcode.IOTA: iota.infer_iota,
        Opcode.OPT_BARRIER: ordering.infer_opt_barrier,
        Opcode.ADD_DEPENDENCY: ordering.infer_add_dependency,
        Opcode.AFTER_ALL: ordering.infer_after_all,
        Opcode.DOMAIN: ordering.infer_domain,
        Opcode.OUTFEED: outfeed.infer_outfeed,
        Opcode.PAD: pad.infer_pad,
        Opcode.PARAMETER: parameter.infer_parameter,
        Opcode.REDUCE_PRECISION: reduce_precision.infer_reduce_precision,
        Opcode.PARTITION_ID: replica_id.infer_id,
        Opcode.REPLICA_ID: replica_id.infer_id,
        Opcode.RESHAPE: reshape.infer_reshape,
        Opcode.REVERSE: reverse.infer_reverse,
        Opcode.SET_DIMENSION_SIZE: set_dimension_size.infer_set_dimension_size,
        Opcode.SLICE: slice_.infer_slice,
        Opcode.STOCHASTIC_CONVERT: stochastic_convert.infer_stochastic_convert,
        Opcode.TRANSPOSE: transpose.infer_transpose,
        Opcode.TUPLE: tuple_.infer_tuple,
        Opcode.GET_TUPLE_ELEMENT: tuple_.infer_get_tuple_element,
    }
)
"""Elementwise operations, data movement, and operations on values, tuples and effects."""

COMPOUND = _definitions(
    {
        Opcode.DOT: dot.infer_dot,
        Opcode.RAGGED_DOT: ragged_dot.infer_ragged_dot,
        Opcode.CONVOLUTION: convolution.infer_convolution,
        Opcode.REDUCE: reduce.infer_reduce,
        Opcode.REDUCE_WINDOW: reduce_window.infer_reduce_window,
        Opcode.SELECT_AND_SCATTER: select_and_scatter.infer_select_and_scatter,
        Opcode.WHILE: while_loop.infer_while,
        Opcode.CONDITIONAL: conditional.infer_conditional,
        Opcode.CALL: call.infer_call,
        Opcode.MAP: map_.infer_map,
        Opcode.FUSION: fusion.infer_fusion,
        Opcode.SORT: sort.infer_sort,
        Opcode.GATHER: gather.infer_gather,
        Opcode.SCATTER: scatter.infer_scatter,
        Opcode.SCALED_DOT: scaled_dot.infer_scaled_dot,
        Opcode.SCAN: scan.infer_scan,
        Opcode.RNG: rng.infer_rng,
        Opcode.RNG_BIT_GENERATOR: rng_bit_generator.infer_rng_bit_generator,
        Opcode.RNG_GET_AND_UPDATE_STATE: rng_get_and_update_state.infer_rng_get_and_update_state,
        Opcode.BATCH_NORM_TRAINING: batch_norm.infer_batch_norm_training,
        Opcode.BATCH_NORM_INFERENCE: batch_norm.infer_batch_norm_inference,
        Opcode.BATCH_NORM_GRAD: batch_norm.infer_batch_norm_grad,
        Opcode.CHOLESKY: cholesky.infer_cholesky,
        Opcode.TRIANGULAR_SOLVE: triangular_solve.infer_triangular_solve,
        Opcode.FFT: fft.infer_fft,
        Opcode.TOPK: topk.infer_topk,
    }
)
"""Operations that contract, reduce, gather and scatter, or call computations."""

COMMUNICATION = _definitions(
    {
        Opcode.ALL_GATHER: all_gather.infer_all_gather,
        Opcode.ALL_GATHER_START: all_gather.infer_all_gather_start,
        Opcode.ALL_GATHER_DONE: all_gather.infer_all_gather_done,
        Opcode.ALL_REDUCE: all_reduce.infer_all_reduce,
        Opcode.ALL_REDUCE_START: all_reduce.infer_all_reduce,
        Opcode.ALL_REDUCE_DONE: all_reduce.infer_all_reduce_done,
        Opcode.ALL_TO_ALL: all_to_all.infer_all_to_all,
        Opcode.ASYNC_START: asynchronous.infer_async_start,
        Opcode.ASYNC_UPDATE: asynchronous.infer_async_update,
        Opcode.ASYNC_DONE: asynchronous.infer_async_done,
        Opcode.COLLECTIVE_BROADCAST: collective_broadcast.infer_collective_broadcast,
        Opcode.COLLECTIVE_PERMUTE: collective_permute.infer_collective_permute,
        Opcode.COLLECTIVE_PERMUTE_START: collective_permute.infer_collective_permute_start,
        Opcode.COLLECTIVE_PERMUTE_DONE: collective_permute.infer_collective_permute_done,
        Opcode.COLLECTIVE_REDUCE: collective_reduce.infer_collective_reduce,
        Opcode.COPY_START: copy_halves.infer_copy_start,
        Opcode.COPY_DONE: copy_halves.infer_copy_done,
        Opcode.RAGGED_ALL_TO_ALL: ragged_all_to_all.infer_ragged_all_to_all,
        Opcode.REDUCE_SCATTER: reduce_scatter.infer_reduce_scatter,
        Opcode.SEND: send_recv.infer_send,
        Opcode.SEND_DONE: send_recv.infer_send_done,
        Opcode.RECV: send_recv.infer_recv,
        Opcode.RECV_DONE: send_recv.infer_recv_done,
    }
)
"""The operations between replicas, and those written as two halves or more."""

DEFINITION: Mapping[Opcode, OpDefinition] = {
    definition.opcode: definition for definition in (*ELEMENTARY, *COMPOUND, *COMMUNICATION)
}
"""The definition of each opcode that programs may hold."""

UNDEFINED: Mapping[Opcode, str] = {
    Opcode.SHUFFLE: (
        "XLA's newest sources have it, no published message has fields for its attributes, and "
        "no released backend takes it"
    ),
}
"""Reasons why the remaining opcodes have no definition. With DEFINITION it covers every opcode
once.
"""


def definition(opcode: Opcode) -> OpDefinition:
    """The definition of `opcode`; raises UnimplementedError saying why there is none."""
    found = DEFINITION.get(opcode)
    if found is None:
        raise UnimplementedError(f"{UNDEFINED[opcode]}, got opcode {opcode}")
    return found


def infer_shape(
    opcode: Opcode,
    operands: Sequence[Shape],
    attributes: Any,
    called: Sequence[ProgramShape] = (),
    *,
    instruction: str = "",
) -> Shape:
    """Return the shape, without layout, of `opcode` applied to operands of these shapes.

    Args:
        opcode: The operation.
        operands: Shapes of the operands.
        attributes: The operation's attribute record.
        called: Signatures of the called computations.
        instruction: Name of the instruction for messages, which start with the opcode and this
            name.

    Raises:
        ShapeError: A rule is broken, that of the operand count included.
        UnimplementedError: The opcode has no definition.
    """
    arity = opcode.arity
    try:
        if arity not in (VARIADIC, len(operands)):
            inside = ", ".join(map(str, operands))
            raise ShapeError(
                f"the number of operands must be {arity}, got {len(operands)}: ({inside})"
            )
        return definition(opcode).infer(operands, attributes, called)
    except XlaError as error:
        raise error.at(opcode, instruction) from error.__cause__
