"""The opcode of each builder function; `test_opcode_table.py` finds one that none writes."""

import pytest

from tests.unit.client.documented import ExampleCall
from xla_client import Builder, Shape, ops
from xla_contract.types.opcode import Opcode
from xla_server.ir.importer import import_module
from xla_server.ir.verification.verifier import verify

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


# Functions that have their opcode's name in Python style are not listed.
OPCODE = {name: name.rstrip("_").replace("_", "-") for name in ops.__all__} | {
    "all_reduce_tuple": "all-reduce", "all_to_all": "reshape", "all_to_all_tuple": "all-to-all",
    "batch_dot": "dot", "bitcast_convert_type": "bitcast-convert", "broadcast_in_dim": "broadcast",
    "clz": "count-leading-zeros", "collapse": "reshape", "composite_call": "call",
    "concat_in_dim": "concatenate", "conj": "complex", "conv": "convolution",
    "conv_general": "convolution", "conv_general_dilated": "convolution",
    "conv_with_general_dimensions": "convolution", "conv_with_general_padding": "convolution",
    "convert_element_type": "convert", "cos": "cosine", "cross_replica_sum": "all-reduce",
    "div": "divide", "dot_general": "dot", "eq": "compare", "eq_total_order": "compare",
    "exp": "exponential", "expm1": "exponential-minus-one", "floor_div": "select",
    "floor_mod": "select", "ge": "compare", "ge_total_order": "compare", "gt": "compare",
    "gt_total_order": "compare", "infeed": "get-tuple-element", "infeed_with_token": "infeed",
    "le": "compare", "le_total_order": "compare", "log1p": "log-plus-one", "lt": "compare",
    "lt_total_order": "compare", "matmul": "dot", "max": "maximum", "min": "minimum",
    "mul": "multiply", "ne": "compare", "ne_total_order": "compare", "neg": "negate",
    "optimization_barrier": "opt-barrier", "outfeed_with_token": "outfeed", "pad_in_dim": "pad",
    "population_count": "popcnt", "pow": "power", "recv": "get-tuple-element",
    "recv_from_host": "recv-done", "recv_with_token": "recv-done", "reduce_all": "reduce",
    "reduce_window_with_general_padding": "reduce-window", "rem": "remainder",
    "remove_dynamic_dimension": "set-dimension-size", "rev": "reverse", "rng_normal": "rng",
    "rng_uniform": "rng", "roll": "slice", "round": "round-nearest-afz",
    "select_and_scatter_with_general_padding": "select-and-scatter", "send": "send-done",
    "send_to_host": "send-done", "send_with_token": "send-done", "sin": "sine",
    "slice_in_dim": "slice", "stochastic_convert_type": "stochastic-convert", "sub": "subtract",
    "top_k": "topk",
}  # fmt: skip
SOURCES = {
    "after_all": (lambda b: b.after_all([b.create_token()]), "after-all"),
    "constant": (lambda b: b.constant(1.0), "constant"),
    "create_token": (lambda b: b.create_token(), "after-all"),
    "infeed": (lambda b: b.infeed(Shape.parse("f32[2]")), "get-tuple-element"),
    "iota": (lambda b: b.iota(Shape.parse("s32[2,3]"), 1), "iota"),
    "parameter": (lambda b: b.parameter(0, "f32[2]"), "parameter"),
    "partition_id": (lambda b: b.partition_id(), "partition-id"),
    "recv": (lambda b: b.recv(Shape.parse("f32[2]"), 1), "get-tuple-element"),
    "replica_id": (lambda b: b.replica_id(), "replica-id"),
}
WRITTEN = {*OPCODE.values(), *(opcode for _, opcode in SOURCES.values()), *FIRST_HALVES}
"""Opcodes that some function writes."""


@pytest.mark.parametrize("name", sorted(OPCODE))
def test_function_emits_its_opcode_and_the_server_agrees_on_the_shape(name):
    """Each is called as in the example of its docstring."""
    args, named = ExampleCall(f"ops.{name}").arguments()
    op = getattr(ops, name)(*args, **named)
    module = import_module(op.builder.build(op).proto)
    verify(module)
    assert module.entry.root.opcode == OPCODE[name]
    assert module.entry.root.shape.without_layout() == op.shape


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_source_emits_its_opcode(name):
    programs = Builder(name)
    make, opcode = SOURCES[name]
    module = import_module(programs.build(make(programs)).proto)
    verify(module)
    assert module.entry.root.opcode == opcode
