"""Signs that are read from the result of relu."""

import pytest

from tests.unit.passes.passing import passed, rewritten, stated
from xla_contract.types.opcode import Opcode
from xla_server.fusion.activation_masks import ActivationMasks
from xla_server.ir.module import HloModule


def module_of(
    compared: str = "x0, zeros", how: str = "direction=GT", least: str = "0"
) -> HloModule:
    return stated(
        ["f32[64]"],
        "(f32[64], pred[64]) tuple(m, p)",
        "zero = f32[] constant(0)",
        "zeros = f32[64] broadcast(zero), dimensions={}",
        f"least = f32[] constant({least})",
        "leasts = f32[64] broadcast(least), dimensions={}",
        "m = f32[64] maximum(leasts, x0)",
        f"p = pred[64] compare({compared}), {how}",
    )


def test_the_result_is_compared() -> None:
    module = module_of()
    after = rewritten(module, ActivationMasks())
    (mask,) = [i for i in after.entry.instructions if i.opcode is Opcode.COMPARE]
    assert mask.operands[0].opcode is Opcode.MAXIMUM
    # NaN, infinities and both zeros are among what is drawn.


@pytest.mark.parametrize(
    "module",
    [
        module_of(how="direction=GE"),
        module_of(how="direction=GT, type=TOTALORDER"),
        module_of(compared="zeros, x0"),
        module_of(least="1"),
    ],
)
def test_other_comparisons_are_left(module: HloModule) -> None:
    passed(module, ActivationMasks(), fires=False)
