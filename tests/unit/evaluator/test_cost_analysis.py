"""The counts are XLA's: jaxlib's analysis of the same unoptimised module is the judge."""

import jax
import numpy as np
import pytest

from tests.corpus.hlo_text import VECTOR_LOOP, parse_hlo
from tests.corpus.jax.cases import CASES
from xla_contract.ops.elementwise.elementwise import ELEMENTWISE
from xla_contract.stubs import hlo_pb2
from xla_contract.types.dimension_numbers import WindowDimension
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.evaluator.cost_analysis import Cost, _valid_positions, module_cost
from xla_server.ir.importer import import_module


def xla_cost(proto: hlo_pb2.HloModuleProto) -> Cost:
    from jax._src.lib import _jax, xla_client

    module = xla_client.hlo.HloModule.from_serialized_hlo_module_proto(proto.SerializeToString())
    found = _jax.hlo_module_cost_analysis(jax.devices("cpu")[0].client, module)
    return Cost(max(0.0, found.get("flops", 0.0)), max(0.0, found.get("transcendentals", 0.0)))


def entry(body: str, *computations: str) -> str:
    return "\n".join(["HloModule m", *computations, f"ENTRY main {{ {body} }}"])


ADD = """add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }"""
GE = """ge { c = f32[] parameter(0)
  d = f32[] parameter(1)
  ROOT g = pred[] compare(c, d), direction=GE }"""
SQUARE_EXP = """square_exp { q = f32[] parameter(0)
  r = f32[] exponential(q)
  ROOT t = f32[] multiply(r, r) }"""

PROGRAMS = {
    "loop": VECTOR_LOOP,
    "elementwise": entry(
        "x = f32[3,4] parameter(0)\n y = f32[3,4] tanh(x)\n z = f32[3,4] power(y, x)\n"
        "p = pred[3,4] compare(y, z), direction=LT\n k = s32[3,4] convert(x)\n"
        "w = f32[3,4] select(p, y, z)\n ROOT v = (f32[3,4], s32[3,4]) tuple(w, k)"
    ),
    "dot": entry(
        "x = f32[2,3,4] parameter(0)\n y = f32[2,4,5] parameter(1)\n"
        "ROOT d = f32[2,3,5] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0},"
        " lhs_contracting_dims={2}, rhs_contracting_dims={1}"
    ),
    "convolution": entry(
        "x = f32[2,8,9,4] parameter(0)\n w = f32[3,2,2,6] parameter(1)\n"
        "ROOT c = f32[2,8,5,6] convolution(x, w), window={size=3x2 stride=1x2 pad=1_1x0_1},"
        " dim_labels=b01f_01io->b01f, feature_group_count=2"
    ),
    "transposed convolution": entry(
        "x = f32[1,5,1] parameter(0)\n w = f32[3,1,1] parameter(1)\n"
        "ROOT c = f32[1,7,1] convolution(x, w), window={size=3 stride=2 pad=3_3 lhs_dilate=3"
        " rhs_dilate=2}, dim_labels=b0f_0io->b0f"
    ),
    "reduce": entry(
        "x = f32[3,4] parameter(0)\n z = f32[] constant(0)\n"
        "ROOT r = f32[3] reduce(x, z), dimensions={1}, to_apply=add",
        ADD,
    ),
    "reduce-window": entry(
        "x = f32[8,8] parameter(0)\n z = f32[] constant(0)\n"
        "ROOT r = f32[4,4] reduce-window(x, z), window={size=2x2 stride=2x2}, to_apply=add",
        ADD,
    ),
    "select-and-scatter": entry(
        "x = f32[8,8] parameter(0)\n y = f32[4,4] parameter(1)\n z = f32[] constant(0)\n"
        "ROOT r = f32[8,8] select-and-scatter(x, y, z), window={size=2x2 stride=2x2},"
        " select=ge, scatter=add",
        ADD,
        GE,
    ),
    "map": entry(
        "x = f32[5] parameter(0)\n ROOT m = f32[5] map(x), dimensions={0}, to_apply=square_exp",
        SQUARE_EXP,
    ),
    "conditional": entry(
        "p = pred[] parameter(0)\n x = f32[] parameter(1)\n"
        "ROOT c = f32[] conditional(p, x, x), true_computation=square_exp,"
        " false_computation=halve",
        SQUARE_EXP,
        "halve { h = f32[] parameter(0)\n two = f32[] constant(2)\n i = f32[] divide(h, two)\n"
        " j = f32[] divide(i, two)\n ROOT k = f32[] divide(j, two) }",
    ),
    "random": entry(
        "s = u64[2] parameter(0)\n z = f32[] constant(0)\n o = f32[] constant(1)\n"
        "b = (u64[2], u32[7]) rng-bit-generator(s), algorithm=rng_philox\n"
        "u = f32[2,3] rng(z, o), distribution=rng_uniform\n"
        "t = u64[2] rng-get-and-update-state(), delta=4\n"
        "ROOT r = ((u64[2], u32[7]), f32[2,3], u64[2]) tuple(b, u, t)"
    ),
    "call": entry(
        "x = f32[] parameter(0)\n ROOT c = f32[] call(x), to_apply=square_exp", SQUARE_EXP
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_counts_as_xla_does(name: str) -> None:
    proto = parse_hlo(PROGRAMS[name])
    assert module_cost(import_module(proto)) == xla_cost(proto)


@pytest.mark.parametrize("opcode", sorted(set(ELEMENTWISE) - {Opcode.ATAN}))
def test_the_cost_class_of_an_elementwise_operation_is_xla_s(opcode: Opcode) -> None:
    """But for atan, which jaxlib's HLO text does not have."""
    rule = ELEMENTWISE[opcode]
    kind = next(k for k in (ElementType.F32, ElementType.S32) if k in rule.types.members)
    proto = parse_hlo(
        entry(
            f"x = {kind.text}[3] parameter(0)\n"
            f" ROOT y = {rule.result_type(kind).text}[3] {opcode}({', '.join('x' * opcode.arity)})"
        )
    )
    assert module_cost(import_module(proto)) == xla_cost(proto)


@pytest.mark.parametrize("name", ["dot", "convolution", "cnn_train_step"])
def test_counts_lowered_programs_as_xla_does(name: str) -> None:
    from tests.corpus.jax.programs import PROGRAMS as LOWERED

    assert name in CASES
    proto = hlo_pb2.HloModuleProto.FromString(LOWERED[name]())
    cost, theirs = module_cost(import_module(proto)), xla_cost(proto)
    assert cost.flops == pytest.approx(theirs.flops, rel=0.01)
    assert cost.transcendentals == theirs.transcendentals


@pytest.mark.parametrize("seed", range(20))
def test_valid_positions_are_those_a_slow_count_finds(seed: int) -> None:
    random = np.random.default_rng(seed)
    size, kernel, stride, low, dilation, base = (int(n) for n in random.integers(1, 7, 6))
    window = WindowDimension(kernel, stride, low - 2, low, dilation, base)
    outputs = window.output_size(size)
    reads = [
        output * stride + position * dilation - window.padding_low
        for output in range(outputs)
        for position in range(kernel)
    ]
    inside = [read for read in reads if 0 <= read <= (size - 1) * base and read % base == 0]
    assert _valid_positions(size, outputs, window) == len(inside)
