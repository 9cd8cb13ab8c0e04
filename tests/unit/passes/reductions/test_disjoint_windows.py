"""Windows that have no element in common, as reductions of rows."""

import pytest

from tests.processors import TARGET
from tests.unit.passes.passing import assert_kept, opcodes, passed, stated
from xla_server.ir.module import HloModule
from xla_server.passes.reductions.disjoint_windows import DisjointWindows


def _windows(operand: str, result: str, window: str, operation: str = "max") -> HloModule:
    return stated(
        [operand, "f32[]"],
        f"{result} reduce-window(x0, x1), window={{{window}}}, to_apply={operation}",
    )


FIRES = {
    "rows": _windows("f32[90]", "f32[9]", "size=10 stride=10"),
    "rows_with_a_rest": _windows("f32[3,97]", "f32[3,9]", "size=1x10 stride=1x10"),
    "columns": _windows("f32[40,32]", "f32[4,32]", "size=10x1 stride=10x1"),
    "short_columns_of_rows": _windows("f32[4,90,1]", "f32[4,6,1]", "size=1x15x1 stride=1x15x1"),
    "whole": _windows("f32[7,5]", "f32[1,1]", "size=7x5", "mul"),
    "whole_rows": _windows("f32[7,5,3]", "f32[7,1,3]", "size=1x5x1"),
    "one_position_of_two": _windows("f32[7,5]", "f32[7,1]", "size=1x3 stride=1x4"),
}

KEPT = {
    "in_common": _windows("f32[90]", "f32[81]", "size=10"),
    "apart": _windows("f32[90]", "f32[8]", "size=10 stride=11"),
    "padded": _windows("f32[90]", "f32[10]", "size=10 stride=10 pad=3_7"),
    "cut_off": _windows("f32[90]", "f32[8]", "size=10 stride=10 pad=-3_0"),
    "dilated": _windows("f32[90]", "f32[8]", "size=10 stride=10 rhs_dilate=2"),
    "dilated_base": _windows("f32[46]", "f32[9]", "size=10 stride=10 lhs_dilate=2"),
    "short": _windows("f32[90]", "f32[30]", "size=3 stride=3"),
    "image": _windows("f32[40,32]", "f32[4,8]", "size=10x4 stride=10x4"),
    "few_columns": _windows("f32[40,3]", "f32[4,3]", "size=10x1 stride=10x1"),
}


@pytest.mark.parametrize("name", FIRES)
def test_windows_side_by_side_become_a_reduction(name: str) -> None:
    after = passed(FIRES[name], DisjointWindows(TARGET))
    counts = opcodes(after)
    assert counts["reduce"] == 1
    assert "reduce-window" not in counts
    assert_kept(FIRES[name], after)


@pytest.mark.parametrize("name", KEPT)
def test_other_windows_are_kept(name: str) -> None:
    passed(KEPT[name], DisjointWindows(TARGET), fires=False)
