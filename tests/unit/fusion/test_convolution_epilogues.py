"""Epilogues of convolutions, in the convolution's kernel."""

import pytest

from tests.processors import TARGET
from tests.unit.passes.passing import opcodes, passed, rewritten, stated
from xla_contract.ops.control.fusion import FusionKind
from xla_server.fusion.loop_fusion import LoopFusion
from xla_server.fusion.output_fusion import OutputFusion
from xla_server.ir.module import HloModule

FIRES = {
    "same": ("[1,7,6,8]", "[1,7,6,7]", "[3,3,7,8]", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
    "strided": (
        "[1,4,3,8]", "[1,7,6,40]", "[3,3,40,8]", "size=3x3 stride=2x2 pad=1_1x1_1",
        "b01f_01io->b01f",
    ),
    "dilated_window": (
        "[1,3,4,8]", "[1,7,8,40]", "[3,3,40,8]", "size=3x3 rhs_dilate=2x2", "b01f_01io->b01f",
    ),
    "another_order_of_weights": (
        "[1,7,6,8]", "[1,7,6,8]", "[8,8,3,3]", "size=3x3 pad=1_1x1_1", "b01f_oi01->b01f",
    ),
    "channels_first": (
        "[1,8,7,6]", "[1,5,7,6]", "[8,5,3,3]", "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01",
    ),
    "one_place": ("[1,7,6,8]", "[1,7,6,64]", "[1,1,64,8]", "size=1x1", "b01f_01io->b01f"),
    "grouped": (
        "[1,7,6,16]", "[1,7,6,8]", "[3,3,4,16]", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f",
        "feature_group_count=2",
    ),
    "depthwise": (
        "[1,7,6,8]", "[1,7,6,8]", "[3,3,1,8]", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f",
        "feature_group_count=8",
    ),
    "batch_groups": (
        "[2,7,6,8]", "[4,7,6,8]", "[3,3,8,8]", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f",
        "batch_group_count=2",
    ),
    "dilated_input": (
        "[1,11,9,8]", "[1,6,5,16]", "[3,3,16,8]", "size=3x3 pad=1_1x1_1 lhs_dilate=2x2",
        "b01f_01io->b01f",
    ),
    "one_dimension": ("[1,50,8]", "[1,52,40]", "[3,40,8]", "size=3", "b0f_0io->b0f"),
    "three_dimensions": (
        "[1,4,5,6,8]", "[1,5,6,7,3]", "[2,2,2,3,8]", "size=2x2x2", "b012f_012io->b012f",
    ),
    "little_to_do": ("[1,3,4,8]", "[1,5,6,5]", "[3,3,5,8]", "size=3x3", "b01f_01io->b01f"),
}  # fmt: skip


def relu_of(name: str, kind: str = "f32") -> HloModule:
    shape, base, kernel, window, labels, *groups = FIRES[name]
    attributes = ", ".join([f"window={{{window}}}", f"dim_labels={labels}", *groups])
    return stated(
        [kind + base, kind + kernel],
        f"{kind}{shape} maximum(c, zeros)",
        f"c = {kind}{shape} convolution(x0, x1), {attributes}",
        f"zero = {kind}[] constant(0)",
        f"zeros = {kind}{shape} broadcast(zero), dimensions={{}}",
    )


@pytest.mark.parametrize("name", FIRES)
def test_an_epilogue_is_fused(name: str) -> None:
    assert_fused(relu_of(name))


@pytest.mark.parametrize("kind", ["bf16", "s32", "c64"])
def test_other_types_too(kind: str) -> None:
    module = relu_of("same", kind) if kind != "c64" else doubled()
    assert_fused(module)


def doubled() -> HloModule:
    return stated(
        ["c64[1,7,6,7]", "c64[3,3,7,8]"],
        "c64[1,7,6,8] add(c, c)",
        "c = c64[1,7,6,8] convolution(x0, x1), window={size=3x3 pad=1_1x1_1}, "
        "dim_labels=b01f_01io->b01f",
    )


def assert_fused(module: HloModule) -> None:
    """One fusion computes the convolution with what follows, and the same results."""
    after = rewritten(module, LoopFusion(TARGET), OutputFusion(TARGET), relative=1e-6)
    assert opcodes(after) == {"fusion": 1}
    assert after.entry.root.attributes.kind is FusionKind.OUTPUT
    (called,) = after.entry.root.called
    assert opcodes(after, called)["convolution"] == 1


LEFT = {
    "transposed": (
        "f32[1,8,7,6] negate(t)", ["t = f32[1,8,7,6] transpose(c), dimensions={0,3,1,2}"],
    ),
    "reversed": (
        "f32[1,7,6,8] negate(r)", ["r = f32[1,7,6,8] reverse(c), dimensions={2}"],
    ),
    "of_whole_rows": (
        "f32[1,7,6,8] subtract(c, highs)",
        [
            "low = f32[] constant(-inf)",
            "high = f32[1,7,6] reduce(c, low), dimensions={3}, to_apply=max",
            "highs = f32[1,7,6,8] broadcast(high), dimensions={0,1,2}",
        ],
    ),
    "summed": (
        "f32[8] reduce(neg, zero), dimensions={0,1,2}, to_apply=add",
        ["zero = f32[] constant(0)", "neg = f32[1,7,6,8] negate(c)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT)
def test_what_needs_other_positions_is_left(name: str) -> None:
    root, before = LEFT[name]
    looped = stated(
        ["f32[1,7,6,7]", "f32[3,3,7,8]"],
        root,
        "c = f32[1,7,6,8] convolution(x0, x1), window={size=3x3 pad=1_1x1_1}, "
        "dim_labels=b01f_01io->b01f",
        *before,
    )
    LoopFusion(TARGET).apply(looped)
    passed(looped, OutputFusion(TARGET), fires=False)
