"""What follows a convolution, in the convolution's kernel."""

import pytest

from tests.unit.passes.passing import assert_kept, opcodes, passed, stated
from xla_contract.opcode import Opcode
from xla_contract.ops.fusion import FusionKind
from xla_server.codegen.lower_direct_convolution import direct_phases
from xla_server.fusion.convolution_tails import takes_tail
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
}  # fmt: skip

LEFT = {
    "channels_first": (
        "[1,8,7,6]", "[1,5,7,6]", "[8,5,3,3]", "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01",
    ),
    "one_place": ("[1,7,6,8]", "[1,7,6,64]", "[1,1,64,8]", "size=1x1", "b01f_01io->b01f"),
    "dilated_input": (
        "[1,11,9,8]", "[1,6,5,16]", "[3,3,16,8]", "size=3x3 pad=1_1x1_1 lhs_dilate=2x2",
        "b01f_01io->b01f",
    ),
    "few_features": (
        "[1,17,16,7]", "[1,17,16,9]", "[3,3,9,7]", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f",
    ),
    "short_rows": ("[1,40,2,8]", "[1,42,4,9]", "[3,3,9,8]", "size=3x3", "b01f_01io->b01f"),
    "little_to_do": ("[1,3,4,8]", "[1,5,6,5]", "[3,3,5,8]", "size=3x3", "b01f_01io->b01f"),
    "one_dimension": ("[1,50,8]", "[1,52,40]", "[3,40,8]", "size=3", "b0f_0io->b0f"),
    "deep_sums": ("[1,3,3,8]", "[1,5,5,911]", "[3,3,911,8]", "size=3x3", "b01f_01io->b01f"),
}  # fmt: skip


def relu_of(name: str, kind: str = "f32") -> HloModule:
    shape, base, kernel, window, labels = (FIRES | LEFT)[name]
    return stated(
        [kind + base, kind + kernel],
        f"{kind}{shape} maximum(c, zeros)",
        f"c = {kind}{shape} convolution(x0, x1), window={{{window}}}, dim_labels={labels}",
        f"zero = {kind}[] constant(0)",
        f"zeros = {kind}{shape} broadcast(zero), dimensions={{}}",
    )


@pytest.mark.parametrize("name", FIRES)
def test_a_tail_is_fused(name: str) -> None:
    module = relu_of(name)
    after = passed(module, LoopFusion(), OutputFusion())
    assert opcodes(after) == {"fusion": 1}
    assert after.entry.root.attributes.kind is FusionKind.OUTPUT
    (called,) = after.entry.root.called
    assert opcodes(after, called)["convolution"] == 1
    # What is told here by shapes is done so.
    (convolution,) = [i for i in called.instructions if i.opcode is Opcode.CONVOLUTION]
    assert takes_tail(convolution)
    phases = direct_phases(convolution)
    assert phases is not None
    assert len(phases) == 1
    assert_kept(module, after, relative=1e-6)


@pytest.mark.parametrize("name", LEFT)
def test_convolutions_done_otherwise_are_left(name: str) -> None:
    looped = relu_of(name)
    LoopFusion().apply(looped)
    passed(looped, OutputFusion(), fires=False)


@pytest.mark.parametrize("kind", ["bf16", "s32"])
def test_other_types_are_left(kind: str) -> None:
    looped = relu_of("same", kind)
    LoopFusion().apply(looped)
    passed(looped, OutputFusion(), fires=False)
