"""The opcode of each builder function, and that together they have all opcodes."""

import inspect

import pytest

from xla_client import (
    Builder,
    Computation,
    DotDimensionNumbers,
    ElementType,
    GatherDimensionNumbers,
    PaddingConfig,
    PaddingDimension,
    ScatterDimensionNumbers,
    Shape,
    ops,
)
from xla_client.ops.contraction.convolution import default_dimension_numbers
from xla_contract.ops.definitions import DEFINITION
from xla_contract.ops.elementwise.compare import ComparisonDirection
from xla_contract.ops.linear_algebra.fft import FftType
from xla_contract.ops.random.rng_bit_generator import RandomAlgorithm
from xla_contract.types.opcode import Opcode
from xla_server.ir.importer import import_module
from xla_server.ir.verifier import verify

_HALVES = "compilers write operations in halves; programs write the whole"
NOT_WRITTEN_BY_PROGRAMS = {
    Opcode.ALL_GATHER_DONE: _HALVES,
    Opcode.ALL_GATHER_START: _HALVES,
    Opcode.ALL_REDUCE_DONE: _HALVES,
    Opcode.ALL_REDUCE_START: _HALVES,
    Opcode.ASYNC_DONE: _HALVES,
    Opcode.ASYNC_START: _HALVES,
    Opcode.ASYNC_UPDATE: _HALVES,
    Opcode.COLLECTIVE_PERMUTE_DONE: _HALVES,
    Opcode.COLLECTIVE_PERMUTE_START: _HALVES,
    Opcode.COPY_DONE: _HALVES,
    Opcode.COPY_START: _HALVES,
    Opcode.ADD_DEPENDENCY: "compilers write it to order effects; programs pass tokens",
    Opcode.BITCAST: "compilers write it once layouts are fixed; programs reshape",
    Opcode.COLLECTIVE_REDUCE: "XLA's builder does not write it yet",
    Opcode.DOMAIN: "a partitioner's mark",
    Opcode.FUSION: "compilers write it; programs call",
    Opcode.RNG_GET_AND_UPDATE_STATE: "compilers write it for rng; programs carry their state",
}


FIRST_HALVES = {Opcode.RECV, Opcode.SEND}
"""Written together with the second half."""


class _Programs(Builder):
    """A builder that makes operands of any shape."""

    def __call__(self, text: str):
        return self.parameter(len(self._parameters), Shape.parse(text))


def _combine(name: str, result: str = "f32") -> Computation:
    builder = Builder(name)
    x, y = (builder.parameter(n, Shape.parse("f32[]")) for n in range(2))
    return builder.build(ops.ge(x, y) if result == "pred" else x + y)


def _state(body: bool) -> Computation:
    builder = Builder("body" if body else "condition")
    count = builder.parameter(0, Shape.parse("s32[]"))
    return builder.build(count + 1 if body else ops.lt(count, 3))


def _branch() -> Computation:
    builder = Builder("branch")
    return builder.build(-builder.parameter(0, Shape.parse("f32[]")))


CONV = default_dimension_numbers(1)
ONE = [(0, 0)]
CASES = {
    "all_gather": lambda p: ops.all_gather(p("f32[2,3]"), 1, 4, [[0, 1, 2, 3]]),
    "all_reduce": lambda p: ops.all_reduce(p("f32[2]"), _combine("all_reduce"), [[1, 0], [2]]),
    "all_reduce_tuple": lambda p: ops.all_reduce_tuple(
        [p("f32[2]"), p("f32[3]")], _combine("all_reduce")
    ),
    "all_to_all": lambda p: ops.all_to_all(p("f32[4,3]"), 0, 0, 2, [[0, 1]]),
    "all_to_all_tuple": lambda p: ops.all_to_all_tuple([p("f32[4]"), p("f32[4]")], [[0, 1]]),
    "batch_norm_grad": lambda p: ops.batch_norm_grad(
        p("f32[4,2]"), p("f32[2]"), p("f32[2]"), p("f32[2]"), p("f32[4,2]"), 0.1, 1
    ),
    "batch_norm_inference": lambda p: ops.batch_norm_inference(
        p("f32[4,2]"), p("f32[2]"), p("f32[2]"), p("f32[2]"), p("f32[2]"), 0.1, 1
    ),
    "batch_norm_training": lambda p: ops.batch_norm_training(
        p("f32[4,2]"), p("f32[2]"), p("f32[2]"), 0.1, 1
    ),
    "batch_dot": lambda p: ops.batch_dot(p("f32[2,3,4]"), p("f32[2,4,5]")),
    "matmul": lambda p: ops.matmul(p("f32[2,3,4]"), p("f32[4,5]")),
    "infeed": lambda p: ops.infeed(p, "f32[3]"),
    "recv": lambda p: ops.recv(p, "f32[3]", 1),
    "roll": lambda p: ops.roll(p("f32[3,4]"), -1, 1),
    "bitcast_convert_type": lambda p: ops.bitcast_convert_type(p("f32[2]"), ElementType.U32),
    "broadcast": lambda p: ops.broadcast(p("f32[3]"), [2]),
    "broadcast_in_dim": lambda p: ops.broadcast_in_dim(p("f32[3]"), [2, 3], [1]),
    "call": lambda p: ops.call(_branch(), [p("f32[]")]),
    "composite_call": lambda p: ops.composite_call(_branch(), [p("f32[]")], "my.negate"),
    "cholesky": lambda p: ops.cholesky(p("f32[2,2]")),
    "clamp": lambda p: ops.clamp(0.0, p("f32[3]"), p("f32[]")),
    "clz": lambda p: ops.clz(p("s32[3]")),
    "collective_broadcast": lambda p: ops.collective_broadcast(p("f32[2]"), [[1, 0]]),
    "collective_permute": lambda p: ops.collective_permute(p("f32[2]"), [(0, 1), (1, 0)], 3),
    "cross_replica_sum": lambda p: ops.cross_replica_sum(p("pred[2]")),
    "collapse": lambda p: ops.collapse(p("f32[2,3,4]"), [1, 2]),
    "compare": lambda p: ops.compare(p("f32[3]"), 0.0, ComparisonDirection.NE),
    "complex": lambda p: ops.complex(p("f32[3]"), p("f32[3]")),
    "concat_in_dim": lambda p: ops.concat_in_dim([p("f32[2,3]"), p("f32[2,1]")], 1),
    "conditional": lambda p: ops.conditional(
        p("s32[]"), [_branch(), _branch()], [p("f32[]"), p("f32[]")]
    ),
    "conv": lambda p: ops.conv(p("f32[1,2,8]"), p("f32[3,2,3]"), [1], "valid"),
    "conv_general": lambda p: ops.conv_general(p("f32[1,2,8]"), p("f32[3,2,3]"), [1], ONE, CONV),
    "conv_general_dilated": lambda p: ops.conv_general_dilated(
        p("f32[1,2,8]"), p("f32[3,2,3]"), [1], ONE, [2], [2], CONV
    ),
    "conv_with_general_dimensions": lambda p: ops.conv_with_general_dimensions(
        p("f32[1,2,8]"), p("f32[3,2,3]"), [1], "same", CONV
    ),
    "conv_with_general_padding": lambda p: ops.conv_with_general_padding(
        p("f32[1,2,8]"), p("f32[3,2,3]"), [1], [(1, 2)]
    ),
    "convert_element_type": lambda p: ops.convert_element_type(p("f32[2]"), ElementType.S8),
    "custom_call": lambda p: ops.custom_call([p("f32[2]")], "target", Shape.parse("f32[3]")),
    "dot": lambda p: ops.dot(p("f32[2,3]"), p("f32[3]")),
    "dot_general": lambda p: ops.dot_general(
        p("f32[5,2,3]"), p("f32[5,3,4]"), DotDimensionNumbers((2,), (1,), (0,), (0,)), [2, 2]
    ),
    "dynamic_reshape": lambda p: ops.dynamic_reshape(
        p("f32[6]"), [p("s32[]"), p("s32[]")], [2, 3], [False, True]
    ),
    "dynamic_slice": lambda p: ops.dynamic_slice(p("f32[4,4]"), [p("s32[]"), p("s32[]")], [1, 2]),
    "dynamic_update_slice": lambda p: ops.dynamic_update_slice(
        p("f32[4]"), p("f32[2]"), [p("s32[]")]
    ),
    "fft": lambda p: ops.fft(p("c64[8]"), FftType.FFT, [8]),
    "gather": lambda p: ops.gather(
        p("f32[5,3]"), p("s32[4]"), GatherDimensionNumbers((1,), (0,), (0,), 1), [1, 3]
    ),
    "get_dimension_size": lambda p: ops.get_dimension_size(p("f32[<=4]"), 0),
    "get_tuple_element": lambda p: ops.get_tuple_element(p("(f32[2], s32[])"), 1),
    "infeed_with_token": lambda p: ops.infeed_with_token(p.create_token(), Shape.parse("f32[2]")),
    "map": lambda p: ops.map([p("f32[2]"), p("f32[2]")], _combine("map")),
    "optimization_barrier": lambda p: ops.optimization_barrier(p("(f32[2], s32[])")),
    "outfeed": lambda p: ops.outfeed(p("f32[2]")),
    "outfeed_with_token": lambda p: ops.outfeed_with_token(p("f32[2]"), p.create_token()),
    "recv_from_host": lambda p: ops.recv_from_host(p.create_token(), Shape.parse("f32[2]"), 1),
    "recv_with_token": lambda p: ops.recv_with_token(p.create_token(), Shape.parse("f32[2]"), 1),
    "send": lambda p: ops.send(p("f32[2]"), 1),
    "send_to_host": lambda p: ops.send_to_host(p("f32[2]"), p.create_token(), 1),
    "send_with_token": lambda p: ops.send_with_token(p("f32[2]"), p.create_token(), 1),
    "pad": lambda p: ops.pad(p("f32[4]"), p("f32[]"), PaddingConfig((PaddingDimension(1, -1, 2),))),
    "pad_in_dim": lambda p: ops.pad_in_dim(p("f32[2,4]"), p("f32[]"), -1, 1, 2),
    "population_count": lambda p: ops.population_count(p("u8[3]")),
    "ragged_all_to_all": lambda p: ops.ragged_all_to_all(
        p("f32[6,2]"), p("f32[9,2]"), *(p("s32[2]") for _ in range(4)), [[0, 1]]
    ),
    "reduce_scatter": lambda p: ops.reduce_scatter(
        p("f32[8]"), _combine("scatter"), 0, 4, [[0, 1, 2, 3]], 1, True
    ),
    "scaled_dot": lambda p: ops.scaled_dot(
        p("f8e4m3fn[4,64]"),
        p("bf16[64,8]"),
        p("f8e8m0fnu[4,2]"),
        None,
        DotDimensionNumbers((1,), (0,)),
    ),
    "ragged_dot": lambda p: ops.ragged_dot(
        p("f32[11,5]"), p("f32[3,5,7]"), p("s32[3]"), DotDimensionNumbers((1,), (1,)), 0, 0
    ),
    "reduce": lambda p: ops.reduce(p("f32[2,3]"), p("f32[]"), _combine("reduce"), [1]),
    "reduce_all": lambda p: ops.reduce_all(p("f32[2,3]"), p("f32[]"), _combine("reduce")),
    "reduce_precision": lambda p: ops.reduce_precision(p("f32[2]"), 5, 10),
    "reduce_window": lambda p: ops.reduce_window(
        p("f32[8]"), p("f32[]"), _combine("pool"), [3], [2], "same"
    ),
    "reduce_window_with_general_padding": lambda p: ops.reduce_window_with_general_padding(
        p("f32[8]"), p("f32[]"), _combine("pool"), [3], [2], [1], [2], [(1, 0)]
    ),
    "remove_dynamic_dimension": lambda p: ops.remove_dynamic_dimension(p("f32[2,<=3]"), 1),
    "reshape": lambda p: ops.reshape(p("f32[2,3]"), [6]),
    "rev": lambda p: ops.rev(p("f32[2,3]"), [1]),
    "rng_bit_generator": lambda p: ops.rng_bit_generator(
        RandomAlgorithm.PHILOX, p("u64[3]"), Shape.parse("f32[4]")
    ),
    "rng_normal": lambda p: ops.rng_normal(p("f32[]"), p("f32[]"), Shape.parse("f32[4]")),
    "rng_uniform": lambda p: ops.rng_uniform(p("f32[]"), p("f32[]"), Shape.parse("f32[4]")),
    "scan": lambda p: ops.scan([p("f32[4]")], [p("f32[]")], _combine("scan"), 0),
    "scatter": lambda p: ops.scatter(
        p("f32[5,3]"),
        p("s32[4]"),
        p("f32[4,3]"),
        _combine("scatter"),
        ScatterDimensionNumbers((1,), (0,), (0,), 1),
    ),
    "select": lambda p: ops.select(p("pred[3]"), p("f32[3]"), 0.0),
    "select_and_scatter": lambda p: ops.select_and_scatter(
        p("f32[4]"),
        _combine("select", "pred"),
        [2],
        [2],
        "valid",
        p("f32[2]"),
        p("f32[]"),
        _combine("scatter"),
    ),
    "select_and_scatter_with_general_padding": lambda p: (
        ops.select_and_scatter_with_general_padding(
            p("f32[4]"),
            _combine("select", "pred"),
            [2],
            [2],
            [(1, 1)],
            p("f32[3]"),
            p("f32[]"),
            _combine("scatter"),
        )
    ),
    "set_dimension_size": lambda p: ops.set_dimension_size(p("f32[2,3]"), p("s32[]"), 1),
    "slice": lambda p: ops.slice(p("f32[2,3]"), [0, 1], [2, 3]),
    "slice_in_dim": lambda p: ops.slice_in_dim(p("f32[2,3]"), 0, 3, 2, -1),
    "sort": lambda p: ops.sort(p("f32[2,3]"), _combine("before", "pred")),
    "stochastic_convert_type": lambda p: ops.stochastic_convert_type(
        p("f32[2]"), p("u32[2]"), ElementType.S8
    ),
    "top_k": lambda p: ops.top_k(p("f32[8]"), 3),
    "transpose": lambda p: ops.transpose(p("f32[2,3]"), [1, 0]),
    "triangular_solve": lambda p: ops.triangular_solve(p("f32[2,2]"), p("f32[2,3]")),
    "tuple": lambda p: ops.tuple([p("f32[2]"), p("s32[]")]),
    "while_": lambda p: ops.while_(_state(False), _state(True), p("s32[]")),
}
LOGICAL = {"and_", "or_", "xor", "not_"}
INTEGRAL = {"mulhi", "shift_left", "shift_right_arithmetic", "shift_right_logical"}
OPCODE = {
    "all_gather": "all-gather", "all_reduce": "all-reduce", "all_reduce_tuple": "all-reduce",
    "all_to_all": "all-to-all", "all_to_all_tuple": "all-to-all",
    "collective_broadcast": "collective-broadcast", "collective_permute": "collective-permute",
    "cross_replica_sum": "all-reduce", "ragged_all_to_all": "ragged-all-to-all",
    "reduce_scatter": "reduce-scatter",
    "batch_dot": "dot", "matmul": "dot", "floor_div": "select", "floor_mod": "select",
    "infeed": "get-tuple-element", "recv": "get-tuple-element", "roll": "slice",
    "abs": "abs", "acos": "acos", "acosh": "acosh", "add": "add", "and_": "and", "asin": "asin",
    "asinh": "asinh", "atan": "atan", "atan2": "atan2", "atanh": "atanh",
    "batch_norm_grad": "batch-norm-grad", "batch_norm_inference": "batch-norm-inference",
    "batch_norm_training": "batch-norm-training", "bitcast_convert_type": "bitcast-convert",
    "broadcast": "broadcast", "broadcast_in_dim": "broadcast", "call": "call", "cbrt": "cbrt",
    "ceil": "ceil", "cholesky": "cholesky", "clamp": "clamp", "clz": "count-leading-zeros",
    "collapse": "reshape", "compare": "compare", "complex": "complex",
    "composite_call": "call",
    "concat_in_dim": "concatenate", "conditional": "conditional", "conj": "complex",
    "conv": "convolution", "conv_general": "convolution", "conv_general_dilated": "convolution",
    "conv_with_general_dimensions": "convolution", "conv_with_general_padding": "convolution",
    "convert_element_type": "convert", "copy": "copy", "cos": "cosine", "cosh": "cosh",
    "custom_call": "custom-call", "div": "divide", "dot": "dot", "dot_general": "dot",
    "dynamic_reshape": "dynamic-reshape",
    "dynamic_slice": "dynamic-slice", "dynamic_update_slice": "dynamic-update-slice",
    "eq": "compare", "eq_total_order": "compare", "erf": "erf", "exp": "exponential",
    "expm1": "exponential-minus-one", "fft": "fft", "floor": "floor", "gather": "gather",
    "ge": "compare", "ge_total_order": "compare", "get_dimension_size": "get-dimension-size",
    "get_tuple_element": "get-tuple-element", "gt": "compare", "gt_total_order": "compare",
    "imag": "imag", "infeed_with_token": "infeed", "is_finite": "is-finite", "le": "compare",
    "le_total_order": "compare", "log": "log", "log1p": "log-plus-one", "logistic": "logistic",
    "lt": "compare", "lt_total_order": "compare", "map": "map", "max": "maximum",
    "min": "minimum", "mul": "multiply", "mulhi": "mulhi", "ne": "compare",
    "ne_total_order": "compare", "neg": "negate", "not_": "not",
    "optimization_barrier": "opt-barrier", "or_": "or", "outfeed": "outfeed",
    "outfeed_with_token": "outfeed", "pad": "pad", "pad_in_dim": "pad",
    "population_count": "popcnt", "pow": "power", "ragged_dot": "ragged-dot",
    "real": "real", "recv_from_host": "recv-done", "recv_with_token": "recv-done",
    "reduce": "reduce",
    "reduce_all": "reduce", "reduce_precision": "reduce-precision",
    "reduce_window": "reduce-window", "reduce_window_with_general_padding": "reduce-window",
    "remove_dynamic_dimension": "set-dimension-size",
    "rem": "remainder", "reshape": "reshape", "rev": "reverse",
    "rng_bit_generator": "rng-bit-generator", "rng_normal": "rng", "rng_uniform": "rng",
    "round": "round-nearest-afz",
    "round_nearest_even": "round-nearest-even", "rsqrt": "rsqrt",
    "scaled_dot": "scaled-dot", "scan": "scan", "scatter": "scatter",
    "select": "select", "select_and_scatter": "select-and-scatter",
    "select_and_scatter_with_general_padding": "select-and-scatter", "send": "send-done",
    "send_to_host": "send-done", "send_with_token": "send-done", "shift_left": "shift-left",
    "set_dimension_size": "set-dimension-size",
    "shift_right_arithmetic": "shift-right-arithmetic",
    "shift_right_logical": "shift-right-logical", "sign": "sign", "sin": "sine", "sinh": "sinh",
    "slice": "slice", "slice_in_dim": "slice", "sort": "sort", "sqrt": "sqrt",
    "stochastic_convert_type": "stochastic-convert", "sub": "subtract", "tan": "tan",
    "tanh": "tanh", "top_k": "topk", "transpose": "transpose",
    "triangular_solve": "triangular-solve", "tuple": "tuple", "while_": "while", "xor": "xor",
}  # fmt: skip
SOURCES = {
    "after_all": lambda p: p.after_all([p.create_token()]),
    "constant": lambda p: p.constant(1.0),
    "create_token": lambda p: p.create_token(),
    "infeed": lambda p: p.infeed(Shape.parse("f32[2]")),
    "iota": lambda p: p.iota(Shape.parse("s32[2,3]"), 1),
    "parameter": lambda p: p("f32[2]"),
    "partition_id": lambda p: p.partition_id(),
    "recv": lambda p: p.recv(Shape.parse("f32[2]"), 1),
    "replica_id": lambda p: p.replica_id(),
}
SOURCE_OPCODE = {
    "after_all": "after-all", "constant": "constant", "create_token": "after-all",
    "infeed": "get-tuple-element", "iota": "iota", "parameter": "parameter",
    "partition_id": "partition-id", "recv": "get-tuple-element", "replica_id": "replica-id",
}  # fmt: skip


def _apply(name: str, programs: _Programs):
    if name in CASES:
        return CASES[name](programs)
    function = getattr(ops, name)
    text = "pred[3]" if name in LOGICAL else "s32[3]" if name in INTEGRAL else "f32[3]"
    operands = {"lhs", "rhs"} if "rhs" in inspect.signature(function).parameters else {"operand"}
    return function(*(programs(text) for _ in operands))


@pytest.mark.parametrize("name", sorted(OPCODE))
def test_function_emits_its_opcode_and_the_server_agrees_on_the_shape(name):
    programs = _Programs(name)
    op = _apply(name, programs)
    module = import_module(programs.build(op).proto)
    verify(module)
    assert module.entry.root.opcode == OPCODE[name]
    assert module.entry.root.shape.without_layout() == op.shape


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_source_emits_its_opcode(name):
    programs = _Programs(name)
    module = import_module(programs.build(SOURCES[name](programs)).proto)
    verify(module)
    assert module.entry.root.opcode == SOURCE_OPCODE[name]


def test_every_function_is_in_the_table():
    assert set(OPCODE) == set(ops.__all__)


def test_every_defined_opcode_has_a_function_or_a_reason():
    emitted = {*OPCODE.values(), *SOURCE_OPCODE.values(), *FIRST_HALVES}
    assert emitted | set(NOT_WRITTEN_BY_PROGRAMS) == set(DEFINITION)
    assert not emitted & set(NOT_WRITTEN_BY_PROGRAMS)
