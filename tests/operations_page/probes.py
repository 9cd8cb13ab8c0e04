"""For each opcode: a smallest program that holds it, and the builder's function that writes it.

`Subject.main` is an operand of the kind that is asked about; all the others are of fixed types.
Where an operation has no operand to ask about but a result, as iota has, the kind is the result's.
"""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

from tests.elementwise_operations import OPERATIONS
from tests.operations_page.probing import Program, Subject, literal_of
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.ops.collectives.all_gather import AllGatherAttributes
from xla_contract.ops.collectives.all_reduce import AllReduceAttributes
from xla_contract.ops.collectives.collective_permute import CollectivePermuteAttributes
from xla_contract.ops.collectives.collective_reduce import CollectiveReduceAttributes
from xla_contract.ops.collectives.reduce_scatter import ReduceScatterAttributes
from xla_contract.ops.control.asynchronous import AsyncAttributes
from xla_contract.ops.control.fusion import FusionAttributes, FusionKind
from xla_contract.ops.control.ordering import DomainAttributes
from xla_contract.ops.indexing.sort import SortAttributes
from xla_contract.ops.linear_algebra.fft import FftType
from xla_contract.ops.random.rng_bit_generator import RandomAlgorithm
from xla_contract.ops.random.rng_get_and_update_state import RngGetAndUpdateStateAttributes
from xla_contract.ops.shaping.bitcast import BitcastAttributes
from xla_contract.types.dimension_numbers import (
    DotDimensionNumbers,
    GatherDimensionNumbers,
    PaddingConfig,
    PaddingDimension,
    ScatterDimensionNumbers,
)
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode

F32, S8, S32, U64, PRED = (
    ElementType.F32,
    ElementType.S8,
    ElementType.S32,
    ElementType.U64,
    ElementType.PRED,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Probe:
    """A function of `xla_client.ops` or method of Builder, and a program; "" for no function.

    `before` is the operation whose result this one takes, where it takes no other.
    """

    function: str
    program: Program
    before: Opcode | None = None


_FUNCTIONS = {opcode: row.function for opcode, row in OPERATIONS.items()} | {
    Opcode.COMPARE: "eq",
    Opcode.COPY: "copy",
    Opcode.OPT_BARRIER: "optimization_barrier",
}
"""The functions whose operands are all of the probed element type."""

_PADDING = PaddingConfig((PaddingDimension(1, 1, 1),))
_PRODUCT = DotDimensionNumbers((1,), (0,))
_ROWS = GatherDimensionNumbers((1,), (0,), (0,), 1)
_ROW_UPDATES = ScatterDimensionNumbers((1,), (0,), (0,), 1)


def _plain(opcode: Opcode, name: str) -> Probe:
    return Probe(name, lambda p: getattr(ops, name)(*(p.main(2) for _ in range(opcode.arity))))


def _all_gather_start(p: Subject) -> Op:
    return p.instruction(Opcode.ALL_GATHER_START, [p.main(2)], AllGatherAttributes(0, (2,)))


def _all_reduce(p: Subject, opcode: Opcode) -> Op:
    return p.instruction(opcode, [p.main(2)], AllReduceAttributes(), [p.combiner()])


def _async_start(p: Subject) -> Op:
    return p.instruction(Opcode.ASYNC_START, [p.main(2)], AsyncAttributes(), [p.identity(2)])


def _async_done(p: Subject, *updates: Opcode) -> Op:
    current = _async_start(p)
    for opcode in (*updates, Opcode.ASYNC_DONE):
        current = p.instruction(opcode, [current], AsyncAttributes(), [p.identity(2)])
    return current


def _collective_permute_start(p: Subject) -> Op:
    attributes = CollectivePermuteAttributes(((0, 0),))
    return p.instruction(Opcode.COLLECTIVE_PERMUTE_START, [p.main(2)], attributes)


def _through_a_channel(p: Subject) -> Op:
    ops.send(p.main(2), 1)
    return p.recv(p.shape(2), 1)


_OTHERS = {
    Opcode.ADD_DEPENDENCY: Probe(
        "",
        lambda p: p.instruction(Opcode.ADD_DEPENDENCY, [p.main(2), p.create_token()]),
    ),
    Opcode.AFTER_ALL: Probe("after_all", lambda p: p.after_all([p.create_token()])),
    Opcode.ALL_GATHER: Probe("all_gather", lambda p: ops.all_gather(p.main(2), 0, 1)),
    Opcode.ALL_GATHER_DONE: Probe(
        "",
        lambda p: p.instruction(Opcode.ALL_GATHER_DONE, [_all_gather_start(p)]),
        before=Opcode.ALL_GATHER_START,
    ),
    Opcode.ALL_GATHER_START: Probe("", _all_gather_start),
    Opcode.ALL_REDUCE: Probe("all_reduce", lambda p: _all_reduce(p, Opcode.ALL_REDUCE)),
    Opcode.ALL_REDUCE_DONE: Probe(
        "",
        lambda p: p.instruction(Opcode.ALL_REDUCE_DONE, [_all_reduce(p, Opcode.ALL_REDUCE_START)]),
        before=Opcode.ALL_REDUCE_START,
    ),
    Opcode.ALL_REDUCE_START: Probe("", lambda p: _all_reduce(p, Opcode.ALL_REDUCE_START)),
    Opcode.ALL_TO_ALL: Probe("all_to_all_tuple", lambda p: ops.all_to_all_tuple([p.main(2)])),
    Opcode.ASYNC_DONE: Probe("", _async_done, Opcode.ASYNC_START),
    Opcode.ASYNC_START: Probe("", _async_start),
    Opcode.ASYNC_UPDATE: Probe(
        "", lambda p: _async_done(p, Opcode.ASYNC_UPDATE), Opcode.ASYNC_START
    ),
    Opcode.BATCH_NORM_GRAD: Probe(
        "batch_norm_grad",
        lambda p: ops.batch_norm_grad(
            p.main(2, 2), p.main(2), p.main(2), p.main(2), p.main(2, 2), 0.1, 1
        ),
    ),
    Opcode.BATCH_NORM_INFERENCE: Probe(
        "batch_norm_inference",
        lambda p: ops.batch_norm_inference(
            p.main(2, 2), p.main(2), p.main(2), p.main(2), p.main(2), 0.1, 1
        ),
    ),
    Opcode.BATCH_NORM_TRAINING: Probe(
        "batch_norm_training",
        lambda p: ops.batch_norm_training(p.main(2, 2), p.main(2), p.main(2), 0.1, 1),
    ),
    Opcode.BITCAST: Probe(
        "", lambda p: p.instruction(Opcode.BITCAST, [p.main(2)], BitcastAttributes(p.shape(2)))
    ),
    Opcode.BITCAST_CONVERT: Probe(
        "bitcast_convert_type",
        lambda p: ops.bitcast_convert_type(p.main(2), p.unsigned_type()),
    ),
    Opcode.BROADCAST: Probe("broadcast", lambda p: ops.broadcast(p.main(2), [3])),
    Opcode.CALL: Probe("call", lambda p: ops.call(p.identity(2), [p.main(2)])),
    Opcode.CHOLESKY: Probe("cholesky", lambda p: ops.cholesky(p.main(1, 1))),
    Opcode.CLAMP: Probe("clamp", lambda p: ops.clamp(p.main(2), p.main(2), p.main(2))),
    Opcode.COLLECTIVE_BROADCAST: Probe(
        "collective_broadcast", lambda p: ops.collective_broadcast(p.main(2), [[0]])
    ),
    Opcode.COLLECTIVE_PERMUTE: Probe(
        "collective_permute", lambda p: ops.collective_permute(p.main(2), [(0, 0)])
    ),
    Opcode.COLLECTIVE_PERMUTE_DONE: Probe(
        "",
        lambda p: p.instruction(Opcode.COLLECTIVE_PERMUTE_DONE, [_collective_permute_start(p)]),
        before=Opcode.COLLECTIVE_PERMUTE_START,
    ),
    Opcode.COLLECTIVE_PERMUTE_START: Probe("", _collective_permute_start),
    Opcode.COLLECTIVE_REDUCE: Probe(
        "",
        lambda p: p.instruction(
            Opcode.COLLECTIVE_REDUCE,
            [p.main(2)],
            CollectiveReduceAttributes(),
            [p.combiner()],
        ),
    ),
    Opcode.CONCATENATE: Probe(
        "concat_in_dim", lambda p: ops.concat_in_dim([p.main(2), p.main(2)], 0)
    ),
    Opcode.CONDITIONAL: Probe(
        "conditional",
        lambda p: ops.conditional(
            p.of(PRED), [p.identity(2), p.identity(2)], [p.main(2), p.main(2)]
        ),
    ),
    Opcode.CONSTANT: Probe("constant", lambda p: p.constant(literal_of(p.shape(2)))),
    Opcode.CONVERT: Probe(
        "convert_element_type", lambda p: ops.convert_element_type(p.main(2), F32)
    ),
    Opcode.CONVOLUTION: Probe(
        "conv", lambda p: ops.conv(p.main(1, 1, 4), p.main(1, 1, 2), [1], "valid")
    ),
    Opcode.COPY_DONE: Probe(
        "",
        lambda p: p.instruction(Opcode.COPY_DONE, [p.instruction(Opcode.COPY_START, [p.main(2)])]),
        before=Opcode.COPY_START,
    ),
    Opcode.COPY_START: Probe("", lambda p: p.instruction(Opcode.COPY_START, [p.main(2)])),
    Opcode.CUSTOM_CALL: Probe(
        "custom_call", lambda p: ops.custom_call([p.main(2)], "Sharding", p.shape(2))
    ),
    Opcode.DOMAIN: Probe(
        "", lambda p: p.instruction(Opcode.DOMAIN, [p.main(2)], DomainAttributes())
    ),
    Opcode.DOT: Probe(
        "dot_general", lambda p: ops.dot_general(p.main(2, 2), p.main(2, 2), _PRODUCT)
    ),
    Opcode.DYNAMIC_RESHAPE: Probe(
        "dynamic_reshape", lambda p: ops.dynamic_reshape(p.main(1), [p.of(S32)], [1], [True])
    ),
    Opcode.DYNAMIC_SLICE: Probe(
        "dynamic_slice", lambda p: ops.dynamic_slice(p.main(3), [p.of(S32)], [2])
    ),
    Opcode.DYNAMIC_UPDATE_SLICE: Probe(
        "dynamic_update_slice",
        lambda p: ops.dynamic_update_slice(p.main(3), p.main(2), [p.of(S32)]),
    ),
    Opcode.FFT: Probe(
        "fft",
        lambda p: ops.fft(p.main(2), FftType.FFT if p.kind.is_complex else FftType.RFFT, [2]),
    ),
    Opcode.FUSION: Probe(
        "",
        lambda p: p.instruction(
            Opcode.FUSION, [p.main(2)], FusionAttributes(FusionKind.LOOP), [p.identity(2)]
        ),
    ),
    Opcode.GATHER: Probe("gather", lambda p: ops.gather(p.main(3, 2), p.of(S32, 1), _ROWS, [1, 2])),
    Opcode.GET_DIMENSION_SIZE: Probe(
        "get_dimension_size", lambda p: ops.get_dimension_size(p.main(3), 0)
    ),
    Opcode.GET_TUPLE_ELEMENT: Probe(
        "get_tuple_element", lambda p: ops.get_tuple_element(ops.tuple([p.main(2)]), 0)
    ),
    Opcode.INFEED: Probe("infeed", lambda p: p.infeed(p.feed(p.shape(2)))),
    Opcode.IOTA: Probe("iota", lambda p: p.iota(p.shape(2), 0)),
    Opcode.MAP: Probe("map", lambda p: ops.map([p.main(2), p.main(2)], p.combiner(), [0])),
    Opcode.OUTFEED: Probe("outfeed", lambda p: ops.outfeed(p.main(2))),
    Opcode.PAD: Probe("pad", lambda p: ops.pad(p.main(2), p.main(), _PADDING)),
    Opcode.PARAMETER: Probe("parameter", lambda p: p.argument(p.shape(2))),
    Opcode.PARTITION_ID: Probe("partition_id", lambda p: p.partition_id()),
    Opcode.RAGGED_ALL_TO_ALL: Probe(
        "ragged_all_to_all",
        lambda p: ops.ragged_all_to_all(p.main(2), p.main(2), *(p.of(S32, 1) for _ in range(4))),
    ),
    Opcode.RAGGED_DOT: Probe(
        "ragged_dot",
        lambda p: ops.ragged_dot(
            p.main(1, 2), p.main(1, 2, 2), p.of(S32, 1), DotDimensionNumbers((1,), (1,)), 0, 0
        ),
    ),
    Opcode.RECV: Probe("recv", _through_a_channel, Opcode.SEND),
    Opcode.RECV_DONE: Probe("recv", _through_a_channel, Opcode.SEND),
    Opcode.REDUCE: Probe("reduce", lambda p: ops.reduce(p.main(2), p.main(), p.combiner(), [0])),
    Opcode.REDUCE_PRECISION: Probe(
        "reduce_precision", lambda p: ops.reduce_precision(p.main(2), 5, 2)
    ),
    Opcode.REDUCE_SCATTER: Probe(
        "reduce_scatter",
        lambda p: p.instruction(
            Opcode.REDUCE_SCATTER, [p.main(2)], ReduceScatterAttributes(0, (2,)), [p.combiner()]
        ),
    ),
    Opcode.REDUCE_WINDOW: Probe(
        "reduce_window_with_general_padding",
        lambda p: ops.reduce_window_with_general_padding(
            p.main(4), p.main(), p.combiner(), [2], [2]
        ),
    ),
    Opcode.REPLICA_ID: Probe("replica_id", lambda p: p.replica_id()),
    Opcode.RESHAPE: Probe("reshape", lambda p: ops.reshape(p.main(2), [2, 1])),
    Opcode.REVERSE: Probe("rev", lambda p: ops.rev(p.main(2), [0])),
    Opcode.RNG: Probe("rng_uniform", lambda p: ops.rng_uniform(p.main(), p.main(), p.shape(2))),
    Opcode.RNG_BIT_GENERATOR: Probe(
        "rng_bit_generator",
        lambda p: ops.rng_bit_generator(RandomAlgorithm.THREE_FRY, p.of(U64, 2), p.shape(2)),
    ),
    Opcode.RNG_GET_AND_UPDATE_STATE: Probe(
        "",
        lambda p: p.instruction(
            Opcode.RNG_GET_AND_UPDATE_STATE, [], RngGetAndUpdateStateAttributes(1)
        ),
    ),
    Opcode.SCALED_DOT: Probe(
        "scaled_dot",
        lambda p: ops.scaled_dot(p.main(2, 2), p.main(2, 2), None, None, _PRODUCT),
    ),
    Opcode.SCAN: Probe("scan", lambda p: ops.scan([p.main(2)], [p.main()], p.combiner())),
    Opcode.SCATTER: Probe(
        "scatter",
        lambda p: ops.scatter(p.main(3, 2), p.of(S32, 1), p.main(1, 2), p.combiner(), _ROW_UPDATES),
    ),
    Opcode.SELECT: Probe(
        "select",
        lambda p: p.instruction(Opcode.SELECT, [p.of(PRED, 2), p.main(2), p.main(2)]),
    ),
    Opcode.SELECT_AND_SCATTER: Probe(
        "select_and_scatter_with_general_padding",
        lambda p: ops.select_and_scatter_with_general_padding(
            p.main(4), p.decider(True), [2], [2], [(0, 0)], p.main(2), p.main(), p.combiner()
        ),
    ),
    Opcode.SEND: Probe("send", _through_a_channel),
    Opcode.SEND_DONE: Probe("send", _through_a_channel, Opcode.SEND),
    Opcode.SET_DIMENSION_SIZE: Probe(
        "set_dimension_size", lambda p: ops.set_dimension_size(p.main(3), p.of(S32), 0)
    ),
    Opcode.SLICE: Probe("slice", lambda p: ops.slice(p.main(3), [1], [3])),
    Opcode.SORT: Probe(
        "sort",
        lambda p: p.instruction(Opcode.SORT, [p.main(2)], SortAttributes(0), [p.decider(False)]),
    ),
    Opcode.STOCHASTIC_CONVERT: Probe(
        "stochastic_convert_type",
        lambda p: ops.stochastic_convert_type(p.main(2), p.unsigned(2), S8),
    ),
    Opcode.TOPK: Probe("top_k", lambda p: ops.top_k(p.main(3), 2)),
    Opcode.TRANSPOSE: Probe("transpose", lambda p: ops.transpose(p.main(2, 1), [1, 0])),
    Opcode.TRIANGULAR_SOLVE: Probe(
        "triangular_solve", lambda p: ops.triangular_solve(p.main(1, 1), p.main(1, 1))
    ),
    Opcode.TUPLE: Probe("tuple", lambda p: ops.tuple([p.main(2)])),
    Opcode.WHILE: Probe("while_", lambda p: ops.while_(p.never(2), p.identity(2), p.main(2))),
}

PROBES: Mapping[Opcode, Probe] = MappingProxyType(
    {
        **{opcode: _plain(opcode, name) for opcode, name in _FUNCTIONS.items()},
        **_OTHERS,
    }
)
"""The probe of each opcode that has a definition."""
