"""The shapes that the rules of operations give, in HLO text."""

import pytest

from tests.corpus.hlo_programs import program
from xla_contract.ops.definitions import infer_shape
from xla_server.ir.text.parser import parse_module

COLLECTIVES = (
    ("f32[2,3]{0,1}", "f32[2,12] all-gather(x0), dimensions={1}, replica_groups={{0,1,2,3}}"),
    ("f32[2,3]", "f32[2,15] all-gather(x0), dimensions={1}, replica_groups={}"),
    (
        "f32[2] s8[1,5]",
        "(f32[4], s8[2,5]) all-gather(x0, x1), dimensions={0}, replica_groups={{0,1},{3,2}}",
    ),
    (
        "f32[2] s8[1,5]",
        "((f32[2], s8[1,5]), (f32[4], s8[2,5])) all-gather-start(x0, x1), dimensions={0}, "
        "replica_groups={{0,1},{3,2}}",
    ),
    (
        "f32[2]",
        "(f32[2], f32[4]) all-gather-start(x0), dimensions={0}",
        "f32[4] all-gather-done(start)",
    ),
    ("f32[2,3]{0,1}", "f32[2,3] all-reduce(x0), replica_groups={{0,2},{1}}, to_apply=add"),
    ("f32[2] f32[3]", "(f32[2], f32[3]) all-reduce(x0, x1), to_apply=add"),
    (
        "f32[2]",
        "f32[2] all-reduce(x0), channel_id=1, use_global_device_ids=true, "
        "replica_groups={{0,1}}, to_apply=add",
    ),
    (
        "f32[2] f32[3]",
        "(f32[2], f32[3]) all-reduce-start(x0, x1), to_apply=add",
        "(f32[2], f32[3]) all-reduce-done(start)",
    ),
    ("f32[4,3]", "f32[4,3] all-to-all(x0), dimensions={0}, replica_groups={{0,1}}"),
    ("f32[4]{0} f32[4]", "(f32[4], f32[4]) all-to-all(x0, x1), replica_groups={{0,1},{2,3}}"),
    ("f32[4]", "(f32[4]) all-to-all(x0)"),
    ("f32[4]{0}", "f32[4] collective-broadcast(x0), replica_groups={{3,1}}"),
    ("f32[4]{0}", "f32[4] collective-permute(x0), source_target_pairs={{0,1},{1,0}}"),
    (
        "f32[4] s8[]",
        "(f32[4], s8[]) collective-permute(x0, x1), source_target_pairs={{0,1},{1,0}}",
    ),
    (
        "f32[4]",
        "(f32[4], f32[4], u32[], u32[]) collective-permute-start(x0), source_target_pairs={{0,1}}",
        "f32[4] collective-permute-done(start)",
    ),
    (
        "f32[2,3]{0,1} f32[2]",
        "(f32[2,3], f32[2]) collective-reduce(x0, x1), replica_groups={{0,2},{1}}, to_apply=add",
    ),
    (
        "f32[4,2] f32[5,2]{0,1} s64[2,3] s64[2,3] s64[2,3] s64[2,3]",
        "f32[5,2] ragged-all-to-all(x0, x1, x2, x3, x4, x5), replica_groups={{0,1}}",
    ),
    (
        "f32[8,3]",
        "f32[2,3] reduce-scatter(x0), dimensions={0}, replica_groups={{0,1,2,3}}, to_apply=add",
    ),
    ("f32[2,8]", "f32[2,4] reduce-scatter(x0), dimensions={1}, replica_groups={}, to_apply=add"),
    (
        "f32[2] f32[4]",
        "(f32[1], f32[2]) reduce-scatter(x0, x1), dimensions={0}, replica_groups={{1,0}}, "
        "to_apply=add",
    ),
)

_NHWC = "dim_labels=b01f_01io->b01f"
_SAME = f"window={{size=3x3 pad=1_1x0_0 stride=1x2}}, {_NHWC}"
_INNER = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
_BATCH = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims="

CONTRACTIONS = (
    ("f32[2,8,9,4] f32[3,3,4,6]", f"f32[2,8,4,6] convolution(x0, x1), {_SAME}"),
    (
        "f32[2,9,4,4] f32[3,3,4,6]",
        "f32[2,1,6,6] convolution(x0, x1), "
        f"window={{size=3x3 pad=0_0x-2_0 lhs_dilate=1x3 rhs_dilate=4x1}}, {_NHWC}",
    ),
    (
        "f32[2,8,9,4] f32[3,3,2,6]",
        f"f32[2,8,4,6] convolution(x0, x1), {_SAME}, feature_group_count=2",
    ),
    (
        "f32[4,8,9,4] f32[3,3,4,6]",
        f"f32[2,8,4,6] convolution(x0, x1), {_SAME}, batch_group_count=2",
    ),
    # A kernel larger than the input has no positions.
    (
        "f32[2,2,9,4] f32[3,3,4,6]",
        f"f32[2,0,4,6] convolution(x0, x1), window={{size=3x3 stride=1x2}}, {_NHWC}",
    ),
    (
        "f32[7,2,3] f32[3,5,7]",
        "f32[7,2,5] dot(x0, x1), lhs_batch_dims={0}, rhs_batch_dims={2}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={0}",
    ),
    ("bf16[2] f32[2]", "f32[] dot(x0, x1), lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
    ("s8[2] s8[2]", "s32[] dot(x0, x1), lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
    (
        "f32[11,5] f32[3,5,7] s32[3]",
        "f32[11,7] ragged-dot(x0, x1, x2), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={0}, rhs_group_dims={0}",
    ),
    (
        "f32[11,5] bf16[7,5,3] u8[3]",
        "f32[11,7] ragged-dot(x0, x1, x2), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={0}, rhs_group_dims={2}",
    ),
    (
        "f32[11,5] f32[5,7] s32[3]",
        f"f32[3,11,7] ragged-dot(x0, x1, x2), {_INNER}, lhs_ragged_dims={{1}}",
    ),
    (
        "f32[19,11,5] f32[19,5,7] s32[3]",
        f"f32[19,11,7] ragged-dot(x0, x1, x2), {_BATCH}{{1}}, lhs_ragged_dims={{0}}",
    ),
    (
        "f32[19,11,5] f32[19,5,7] s32[19,3]",
        f"f32[3,19,11,7] ragged-dot(x0, x1, x2), {_BATCH}{{1}}, lhs_ragged_dims={{2}}",
    ),
    (
        "f8e4m3fn[4,64] f8e5m2[64,8] f8e8m0fnu[4,2] f8e8m0fnu[2,8]",
        f"f32[4,8] scaled-dot(x0, x1, x2, x3), {_INNER}",
    ),
    (
        "f4e2m1fn[4,64] bf16[64,8] f8e4m3fn[2,4] bf16[]",
        f"f32[4,8] scaled-dot(x0, x1, x2, x3), {_INNER}",
    ),
)

CONTROL = (
    (
        "f32[]",
        "((f32[]), f32[2], u32[]) async-start(x0), calls=spread",
        "((f32[]), f32[2], u32[]) async-update(start)",
    ),
    (
        "f32[]",
        "((f32[]), f32[2], u32[]) async-start(x0), calls=spread",
        "f32[2] async-done(start)",
    ),
    ("f32[]", "f32[2] call(x0), to_apply=spread"),
    (
        "pred[] f32[] f32[]",
        "f32[2] conditional(x0, x1, x2), true_computation=spread, false_computation=ones",
    ),
    ("s32[] f32[]", "f32[2] conditional(x0, x1), branch_computations={spread}"),
    ("(f32[2]{0},pred[])", "(f32[2], pred[]) while(x0), condition=goes_on, body=step"),
    ("(f32[2]{0},token[])", "(f32[2], token[]) copy(x0)"),
    ("f32[2]{0}", "(f32[2], f32[2], u32[]) copy-start(x0)", "f32[2] copy-done(start)"),
    ("f32[]", "f32[2] fusion(x0), kind=kLoop, calls=spread"),
    ("f32[2,3] f32[2,3]", "pred[2,3] map(x0, x1), dimensions={0,1}, to_apply=ge"),
    ("(f32[2]{0},()) s8[]", "((f32[2], ()), s8[]) tuple(x0, x1)"),
)

ELEMENTWISE = (
    ("pred[2] pred[2]", "pred[2] add(x0, x1)"),
    ("f32[2,3]{0,1} f32[2,3]{1,0}", "f32[2,3] add(x0, x1)"),
    ("f32[<=4] f32[4]", "f32[<=4] add(x0, x1)"),
    ("c64[2]", "f32[2] abs(x0)"),
    ("c128[]", "f64[] real(x0)"),
    ("f16[]", "f16[] imag(x0)"),
    ("bf16[3]", "pred[3] is-finite(x0)"),
    ("f64[2] f64[2]", "c128[2] complex(x0, x1)"),
    ("pred[] s4[2] s4[2]", "s4[2] select(x0, x1, x2)"),
    ("pred[2] c64[2] c64[2]", "c64[2] select(x0, x1, x2)"),
    ("s8[] s8[5] s8[5]", "s8[5] clamp(x0, x1, x2)"),
    ("s32[2,<=3]{0,1}", "bf16[2,<=3] convert(x0)"),
)

FEEDS = (
    ("f32[2] token[]", "(f32[2], u32[], token[]) send(x0, x1), channel_id=1"),
    ("token[]", "(f32[2], u32[], token[]) recv(x0), channel_id=1"),
    ("s32[2,3] token[]", "token[] outfeed(x0, x1), outfeed_shape=s32[2,3]{0,1}"),
    ("token[]", "((f32[2], s32[]), token[]) infeed(x0)"),
)

_ROWS = "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1"

INDEXING = (
    ("f32[5,4] s32[7,1]", f"f32[7,4] gather(x0, x1), {_ROWS}, slice_sizes={{1,4}}"),
    (
        "f32[5,4] s32[2,7]",
        "f32[2,7,3] gather(x0, x1), offset_dims={0,2}, collapsed_slice_dims={}, "
        "start_index_map={1,0}, index_vector_dim=0, slice_sizes={2,3}",
    ),
    (
        "f32[5,4] s32[5,1]",
        "f32[5,3] gather(x0, x1), offset_dims={1}, collapsed_slice_dims={}, start_index_map={1}, "
        "index_vector_dim=1, operand_batching_dims={0}, start_indices_batching_dims={0}, "
        "slice_sizes={1,3}",
    ),
    (
        "f32[5,4] s32[7,1] f32[7,4]",
        "f32[5,4] scatter(x0, x1, x2), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
    ),
    ("f32[2,3]{0,1}", "f32[2,3] sort(x0), dimensions={1}, to_apply=ge"),
    ("f32[2] s32[2]", "(f32[2], s32[2]) sort(x0, x1), dimensions={0}, to_apply=by_value"),
)

RANDOM = (
    ("", "u64[2] rng-get-and-update-state(), delta=-3"),
    *(
        (state, f"({state}, f32[5,0]) rng-bit-generator(x0), algorithm={algorithm}")
        for algorithm, state in (
            *(("rng_three_fry", "u64[2]"), ("rng_philox", "u64[3]"), ("rng_default", "u64[3]")),
        )
    ),
)

REDUCTIONS = (
    (
        "f32[4,2] f32[2] f32[2]",
        "(f32[4,2], f32[2], f32[2]) batch-norm-training(x0, x1, x2), epsilon=0.125, "
        "feature_index=1",
    ),
    ("f32[2,<=3,4]", "f32[<=3] reduce(x0, z), dimensions={0,2}, to_apply=add"),
    (
        "f32[2,3] s32[2,3]",
        "(f32[3], s32[3]) reduce(x0, x1, z, n), dimensions={0}, to_apply=argmax",
    ),
    # A wider float accumulator decides the type of the result.
    ("bf16[2]", "f32[] reduce(x0, z), dimensions={0}, to_apply=wide"),
    # Windows that do not fit are left out.
    ("f32[5]", "f32[2] reduce-window(x0, z), window={size=2 stride=2}, to_apply=add"),
    *(
        (
            f"f32[{sizes}] {carried}[]",
            f"(s8[{result}], {carried}[]) scan(x0, x1), dimensions={{{dimension}}}, "
            f"num_carries=1, to_apply={step}",
        )
        for sizes, carried, dimension, step, result in (
            ("5", "f32", 0, "pairs", "5,2"),
            ("3,5", "s32", 1, "columns", "2,5"),
            ("0", "f32", 0, "pairs", "0,2"),
        )
    ),
)

SHAPING = (
    # The shape of the result is the one stated.
    ("f32[2]{0}", "s16[2,2] bitcast(x0)"),
    ("f32[<=4]", "f32[2,<=4] broadcast(x0), dimensions={1}"),
    ("f32[2,3] f32[2,<=1]", "f32[2,<=4] concatenate(x0, x1), dimensions={1}"),
    ("f32[<=2,3]", "f32[<=6] reshape(x0)"),
    # Only a whole dynamic dimension stays dynamic.
    ("f32[<=4,<=3]", "f32[<=4,2] slice(x0), slice={[0:4], [0:2]}"),
    ("f32[<=12] s32[] s32[]", "f32[3,<=4] dynamic-reshape(x0, x1, x2)"),
    ("f32[3,4]{0,1} s32[]", "f32[3,<=4] set-dimension-size(x0, x1), dimensions={1}"),
    ("f32[<=3,4] s32[]", "f32[<=3,<=4] set-dimension-size(x0, x1), dimensions={1}"),
    ("f32[<=3,<=4] s32[]", "f32[3,<=4] set-dimension-size(x0, x1), dimensions={0}"),
    ("f32[2,<=3]{0,1}", "f32[<=3,2] transpose(x0), dimensions={1,0}"),
)

_CALLED = """
spread { x.s = f32[] parameter(0)
  ROOT y.s = f32[2] broadcast(x.s), dimensions={} }
ones { x.1 = f32[] parameter(0)
  ROOT y.1 = f32[2] constant({1, 1}) }
goes_on { state = (f32[2], pred[]) parameter(0)
  ROOT more = pred[] get-tuple-element(state), index=1 }
step { ROOT old = (f32[2], pred[]) parameter(0) }
wide { a.w = f32[] parameter(0)
  b.w = bf16[] parameter(1)
  c.w = f32[] convert(b.w)
  ROOT s.w = f32[] add(a.w, c.w) }
pairs { e.p = f32[] parameter(0)
  c.p = f32[] parameter(1)
  y.p = s8[2] constant({1, 2})
  ROOT t.p = (s8[2], f32[]) tuple(y.p, c.p) }
columns { e.c = f32[3] parameter(0)
  c.c = s32[] parameter(1)
  y.c = s8[2] constant({1, 2})
  ROOT t.c = (s8[2], s32[]) tuple(y.c, c.c) }
ENTRY"""


CASES = (
    *(*COLLECTIVES, *CONTRACTIONS, *CONTROL, *ELEMENTWISE, *FEEDS),
    *(*INDEXING, *RANDOM, *REDUCTIONS, *SHAPING),
)
"""Shapes of operands x0, x1 ..., and the root; or an instruction `start`, and the root."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[-1])
def test_the_result_has_no_layout_and_the_dynamic_dimensions_of_the_operands(
    case: tuple[str, ...],
) -> None:
    operands, *before, root = case
    text = program(operands.split(), root, *(f"start = {line}" for line in before))
    module = parse_module(text.replace("ENTRY", _CALLED, 1))
    for instruction in module.entry.instructions[-len(case) + 1 :]:
        shapes = [operand.shape for operand in instruction.operands]
        called = [computation.program_shape for computation in instruction.called]
        inferred = infer_shape(instruction.opcode, shapes, instruction.attributes, called)
        assert str(inferred) == str(instruction.shape)
