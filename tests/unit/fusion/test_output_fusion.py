"""Epilogues of dots, in the dot's kernel."""

import pytest

from tests.processors import TARGET
from tests.unit.passes.passing import opcodes, passed, rewritten, stated
from xla_contract.ops.control.fusion import FusionKind
from xla_contract.types.opcode import Opcode
from xla_server.fusion.loop_fusion import LoopFusion
from xla_server.fusion.output_fusion import OutputFusion

DOT = "d = f32[8,6] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
FACTORS = ["f32[8,5]", "f32[5,6]"]

EPILOGUES = {
    "one_operation": ([], "f32[8,6] negate(d)", []),
    "twice_the_product": ([], "f32[8,6] multiply(d, d)", []),
    "bias_and_relu": (
        ["f32[6]"],
        "f32[8,6] maximum(sum, zeros)",
        [
            "wide = f32[8,6] broadcast(x2), dimensions={1}",
            "zero = f32[] constant(0)",
            "zeros = f32[8,6] broadcast(zero), dimensions={}",
            "sum = f32[8,6] add(d, wide)",
        ],
    ),
    "another_shape": (
        ["f32[48]"],
        "f32[48] add(flat, x2)",
        ["flat = f32[48] reshape(d)"],
    ),
    "another_type": ([], "bf16[8,6] convert(neg)", ["neg = f32[8,6] negate(d)"]),
    "softmax": (
        [],
        "f32[8,6] divide(e, sums)",
        [
            "low = f32[] constant(-inf)",
            "zero = f32[] constant(0)",
            "high = f32[8] reduce(d, low), dimensions={1}, to_apply=max",
            "highs = f32[8,6] broadcast(high), dimensions={0}",
            "below = f32[8,6] subtract(d, highs)",
            "e = f32[8,6] exponential(below)",
            "s = f32[8] reduce(e, zero), dimensions={1}, to_apply=add",
            "sums = f32[8,6] broadcast(s), dimensions={0}",
        ],
    ),
}

OTHERS = {
    "transposed": ([], "f32[6,8] negate(t)", ["t = f32[6,8] transpose(d), dimensions={1,0}"]),
    "summed": (
        [],
        "f32[8] reduce(neg, zero), dimensions={1}, to_apply=add",
        ["zero = f32[] constant(0)", "neg = f32[8,6] negate(d)"],
    ),
    "needed_later_too": (
        [],
        "(f32[8,6], f32[8,6]) tuple(sum, r)",
        ["r = f32[8,6] reverse(d), dimensions={0}", "sum = f32[8,6] atan2(d, r)"],
    ),
    "reversed_rows": ([], "f32[8,6] negate(r)", ["r = f32[8,6] reverse(d), dimensions={1}"]),
}


@pytest.mark.parametrize("name", EPILOGUES)
def test_an_epilogue_is_fused(name: str) -> None:
    module = stated([*FACTORS, *EPILOGUES[name][0]], EPILOGUES[name][1], DOT, *EPILOGUES[name][2])
    after = rewritten(module, LoopFusion(TARGET), OutputFusion(TARGET), relative=1e-6)
    assert opcodes(after) == {"fusion": 1}
    assert after.entry.root.attributes.kind is FusionKind.OUTPUT
    (called,) = after.entry.root.called
    assert opcodes(after, called)["dot"] == 1
    # The loop's own computation is gone.
    assert sum(part.name.startswith("fused") for part in after.computations) == 1


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_epilogue_is_left(name: str) -> None:
    parameters, root, before = OTHERS[name]
    looped = stated([*FACTORS, *parameters], root, DOT, *before)
    LoopFusion(TARGET).apply(looped)
    passed(looped, OutputFusion(TARGET), fires=False)


@pytest.mark.parametrize(
    ("root", "before"),
    [
        ("(f32[8,6], f32[8,6]) tuple(d, neg)", []),
        (
            "(f32[8,6], f32[5,6]) tuple(neg, other)",
            ["other = f32[5,6] dot(x0, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}"],
        ),
    ],
)
def test_a_product_that_others_read_is_a_second_result(root: str, before: list[str]) -> None:
    module = stated(FACTORS, root, DOT, "neg = f32[8,6] negate(d)", *before)
    after = rewritten(module, OutputFusion(TARGET), relative=1e-6)
    (fusion,) = [i for i in after.entry.instructions if i.opcode is Opcode.FUSION]
    assert len(fusion.shape.tuple_shapes) == 2


def test_integers_are_left() -> None:
    dot = "d = s32[8,6] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    module = stated(["s32[8,5]", "s32[5,6]"], "s32[8,6] negate(d)", dot)
    passed(module, OutputFusion(TARGET), fires=False)


def test_sums_over_more_than_a_row_are_left() -> None:
    module = stated(
        ["f32[2,4,5]", "f32[5,6]"],
        "f32[2,4,6] divide(d, sums)",
        "d = f32[2,4,6] dot(x0, x1), lhs_contracting_dims={2}, rhs_contracting_dims={0}",
        "zero = f32[] constant(0)",
        "s = f32[2] reduce(d, zero), dimensions={1,2}, to_apply=add",
        "sums = f32[2,4,6] broadcast(s), dimensions={0}",
    )
    LoopFusion(TARGET).apply(module)
    assert any(i.opcode is Opcode.FUSION for i in module.entry.instructions)
    passed(module, OutputFusion(TARGET), fires=False)


@pytest.mark.parametrize(("columns", "is_fused"), [(16, True), (4096, False)])
def test_a_large_sum_of_something_else_is_no_epilogue(columns: int, is_fused: bool) -> None:
    shape = f"f32[8,{columns}]"
    module = stated(
        ["f32[8,5]", f"f32[5,{columns}]", shape],
        f"{shape} multiply(d, sums)",
        f"d = {shape} dot(x0, x1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
        "zero = f32[] constant(0)",
        "s = f32[] reduce(x2, zero), dimensions={0,1}, to_apply=add",
        f"sums = {shape} broadcast(s), dimensions={{}}",
    )
    fused = passed(module, LoopFusion(TARGET), OutputFusion(TARGET))
    kinds = {i.attributes.kind for i in fused.instructions() if i.opcode is Opcode.FUSION}
    assert (FusionKind.OUTPUT in kinds) is is_fused
