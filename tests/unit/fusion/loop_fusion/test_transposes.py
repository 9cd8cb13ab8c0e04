"""Transposes that compute their operands."""

import pytest

from tests.processors import TARGET
from tests.unit.passes.passing import opcodes, rewritten, stated
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
    "rows_of_merged_dimensions_by_tiles": ("8,64,3,64", "0,3,1,2", "8,64,64,3"),
}


def moved(name: str) -> HloModule:
    before, permutation, behind = KINDS[name]
    return stated(
        [f"f32[{before}]"],
        f"f32[{behind}] transpose(n2), dimensions={{{permutation}}}",
        f"n1 = f32[{before}] abs(x0)",
        f"n2 = f32[{before}] sqrt(n1)",
    )


@pytest.mark.parametrize(
    "name", ["by_tiles", "inner_by_tiles", "rows_of_merged_dimensions_by_tiles"]
)
def test_tiles_are_read_as_they_lie(name: str) -> None:
    assert opcodes(rewritten(moved(name), LoopFusion(TARGET))) == {"fusion": 1, "transpose": 1}


@pytest.mark.parametrize(
    "name", ["runs_stay_together", "short_columns", "short_rows", "few_elements"]
)
def test_others_compute_what_they_move(name: str) -> None:
    assert opcodes(rewritten(moved(name), LoopFusion(TARGET))) == {"fusion": 1}


READERS = {
    # (readers of t = f32[20000,3], whether their kernel computes t)
    "elements": (["r = f32[20000,3] add(t, t)"], True),
    "a_slice": (["r = f32[19999,3] slice(t), slice={[1:20000], [0:3]}"], True),
    "reductions_of_rows": (
        ["zz = f32[] constant(0)", "r = f32[20000] reduce(t, zz), dimensions={1}, to_apply=add"],
        True,
    ),
    "reductions_of_columns": (
        ["zz = f32[] constant(0)", "r = f32[3] reduce(t, zz), dimensions={0}, to_apply=add"],
        False,
    ),
    "other_dimensions": (
        ["s = f32[60000] reshape(t)", "r = f32[60000] add(s, x1)"],
        False,
    ),
    "loops_of_a_concatenation": (
        [
            "p = f32[20000,3] add(t, t)",
            "q = f32[20000,3] multiply(t, t)",
            "r = f32[20000,6] concatenate(p, q), dimensions={1}",
        ],
        False,
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_short_rows_are_computed_by_readers_in_their_order(name: str) -> None:
    behind, is_inlined = READERS[name]
    *before, root = behind
    module = stated(
        ["f32[3,20000]", "f32[60000]"],
        root.removeprefix("r = "),
        "t = f32[20000,3] transpose(x0), dimensions={1,0}",
        *before,
    )
    after = rewritten(module, LoopFusion(TARGET), relative=1e-4)
    assert ("transpose" not in opcodes(after)) == is_inlined
