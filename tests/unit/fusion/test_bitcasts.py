"""Bits read as another type within a fusion."""

import pytest

from tests.processors import TARGET
from tests.unit.passes.passing import assert_kept, opcodes, passed, stated
from xla_server.fusion.loop_fusion import LoopFusion


@pytest.mark.parametrize(
    ("operand", "result", "is_fused"),
    [
        ("u32[8]", "f32[8]", True),
        ("u32[8,2]", "f64[8]", False),
        ("u32[8]", "f16[8,2]", False),
        ("u16[8]", "f16[8]", False),
        ("u16[8]", "bf16[8]", False),
    ],
)
def test_bits_of_one_element_for_another_are_fused(
    operand: str, result: str, is_fused: bool
) -> None:
    lines = f"bits = {operand} xor(x0, x0)", f"read = {result} bitcast-convert(bits)"
    module = stated([operand], f"{result} negate(read)", *lines)
    after = passed(module, LoopFusion(TARGET), fires=is_fused)
    assert ("bitcast-convert" not in opcodes(after)) == is_fused
    assert_kept(module, after)
