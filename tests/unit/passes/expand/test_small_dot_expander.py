"""Dots of many small matrices, or of many short rows, become sums."""

import pytest
from hypothesis import given, settings

from tests.processors import TARGET
from tests.unit.passes.canonicalize.dots.test_dot_canonicaliser import dots
from tests.unit.passes.passing import assert_kept, opcodes, passed, rewritten, stated
from xla_server.passes.expand.small_dot_expander import SmallDotExpander

TUNING = TARGET.tuning.small_dots

BATCH = "lhs_batch_dims={0}, rhs_batch_dims={0}"
NN = f"{BATCH}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}"
NT = f"{BATCH}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}"
TN = f"{BATCH}, lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}"
MATRICES = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"

FIRES: dict[str, tuple[list[str], str]] = {
    "matrices": (["f32[9,3,4]", "f32[9,4,2]"], f"f32[9,3,2] dot(x0, x1), {NN}"),
    "rows by rows": (["f64[9,3,4]", "f64[9,2,4]"], f"f64[9,3,2] dot(x0, x1), {NT}"),
    "columns by columns": (["c64[9,4,3]", "c64[9,4,2]"], f"c64[9,3,2] dot(x0, x1), {TN}"),
    "batch behind": (
        ["f32[3,4,9]", "f32[4,2,9]"],
        "f32[9,3,2] dot(x0, x1), lhs_batch_dims={2}, rhs_batch_dims={2}, "
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "two batches and two contracted": (
        ["s32[2,3,4,5]", "s32[3,5,4,2,3]"],
        "s32[2,3,3] dot(x0, x1), lhs_batch_dims={0,1}, rhs_batch_dims={3,0}, "
        "lhs_contracting_dims={3,2}, rhs_contracting_dims={1,2}",
    ),
    "vectors": (
        ["f32[9,4]", "f32[9,4]"],
        f"f32[9] dot(x0, x1), {BATCH}, lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}",
    ),
    "narrow floats": (["bf16[9,3,4]", "bf16[9,4,2]"], f"bf16[9,3,2] dot(x0, x1), {NN}"),
    "narrow floats with wide sums": (
        ["f16[9,3,4]", "f16[9,4,2]"],
        f"f32[9,3,2] dot(x0, x1), {NN}",
    ),
    "narrow integers": (["s8[9,3,4]", "s8[9,4,2]"], f"s8[9,3,2] dot(x0, x1), {NN}"),
    "bytes with wide sums": (["u8[9,3,4]", "u8[9,4,2]"], f"u32[9,3,2] dot(x0, x1), {NN}"),
    "many short rows": (
        [f"f32[{TUNING.min_rows},4]", "f32[4,3]"],
        f"f32[{TUNING.min_rows},3] dot(x0, x1), {MATRICES}",
    ),
    "many short columns": (
        ["f32[3,4]", "f32[40,4]"],
        "f32[3,40] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    ),
}

STAYS: dict[str, tuple[list[str], str]] = {
    "larger matrices": (["f32[9,8,8]", "f32[9,8,8]"], f"f32[9,8,8] dot(x0, x1), {NN}"),
    "one small product": (["f32[3,4]", "f32[4,2]"], f"f32[3,2] dot(x0, x1), {MATRICES}"),
    "longer rows": (
        ["f32[40,8]", f"f32[8,{TUNING.max_row_products // 8 + 1}]"],
        f"f32[40,{TUNING.max_row_products // 8 + 1}] dot(x0, x1), {MATRICES}",
    ),
    "sums that are not unrolled": (["f32[40,9]", "f32[9,2]"], f"f32[40,2] dot(x0, x1), {MATRICES}"),
    "many columns side by side": (["f32[3,4]", "f32[4,40]"], f"f32[3,40] dot(x0, x1), {MATRICES}"),
    "a matrix and a vector": (
        ["f32[40,4]", "f32[4]"],
        "f32[40] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "truth values": (["pred[9,3,4]", "pred[9,4,2]"], f"pred[9,3,2] dot(x0, x1), {NN}"),
    "nothing to add": (["f32[9,3,1]", "f32[9,1,2]"], f"f32[9,3,2] dot(x0, x1), {NN}"),
}


@pytest.mark.parametrize("name", FIRES)
def test_fires(name: str) -> None:
    module = stated(*FIRES[name])
    after = rewritten(
        module, SmallDotExpander(TARGET), relative=1e-2 if "bf16" in FIRES[name][1] else 1e-6
    )
    found = opcodes(after)
    assert "dot" not in found
    assert (found["multiply"], found["reduce"]) == (1, 1)


@pytest.mark.parametrize("name", STAYS)
def test_stays(name: str) -> None:
    passed(stated(*STAYS[name]), SmallDotExpander(TARGET), fires=False)


@settings(max_examples=60, deadline=None)
@given(dots())
def test_dimensions_in_any_order(drawn: tuple[list[str], str]) -> None:
    before = stated(*drawn)
    after = stated(*drawn)
    SmallDotExpander(TARGET).apply(after)
    assert_kept(before, after, relative=1e-6)
