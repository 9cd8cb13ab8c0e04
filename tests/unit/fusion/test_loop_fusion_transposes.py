"""Transposes that compute their operands."""

import pytest

from tests.processors import TARGET
from tests.unit.passes.passing import assert_kept, opcodes, passed, stated
from xla_server.fusion.loop_fusion import LoopFusion
from xla_server.ir.module import HloModule

KINDS = {
    # (sizes before, permutation, sizes behind)
    "by_tiles": ("256,160", "1,0", "160,256"),
    "inner_by_tiles": ("4,64,160", "0,2,1", "4,160,64"),
    "runs_stay_together": ("16,64,40", "1,0,2", "64,16,40"),
    "short_columns": ("20000,3", "1,0", "3,20000"),
    "short_rows": ("3,20000", "1,0", "20000,3"),
    "few_elements": ("32,16", "1,0", "16,32"),
}


def moved(name: str) -> HloModule:
    before, permutation, behind = KINDS[name]
    return stated(
        [f"f32[{before}]"],
        f"f32[{behind}] transpose(n2), dimensions={{{permutation}}}",
        f"n1 = f32[{before}] abs(x0)",
        f"n2 = f32[{before}] sqrt(n1)",
    )


@pytest.mark.parametrize("name", ["by_tiles", "inner_by_tiles"])
def test_tiles_are_read_as_they_lie(name: str) -> None:
    module = moved(name)
    after = passed(module, LoopFusion(TARGET))
    assert opcodes(after) == {"fusion": 1, "transpose": 1}
    assert_kept(module, after)


@pytest.mark.parametrize(
    "name", ["runs_stay_together", "short_columns", "short_rows", "few_elements"]
)
def test_others_compute_what_they_move(name: str) -> None:
    module = moved(name)
    after = passed(module, LoopFusion(TARGET))
    assert opcodes(after) == {"fusion": 1}
    assert_kept(module, after)
