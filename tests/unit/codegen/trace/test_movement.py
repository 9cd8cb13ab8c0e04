"""Rules for operations that move elements, as graphs. Results are those of tests/unit/ops."""

from collections.abc import Sequence

import pytest

from tests.unit.codegen.trace.traced import expression, traced

START = "minimum(maximum(to_i64(x{}), 0), {})"
"""A start index, clamped so that the box fits."""


@pytest.mark.parametrize(
    ("parameters", "root", "expected"),
    [
        (["f32[4,6]"], "f32[6,4] transpose(x0), dimensions={1,0}", "x0[i0+6*i1]"),
        (["f32[9]"], "f32[9] reverse(x0), dimensions={0}", "x0[-1*i0+8]"),
        (["f32[9]"], "f32[3] slice(x0), slice={[1:8:3]}", "x0[3*i0+1]"),
        (["f32[4]"], "f32[4,3] broadcast(x0), dimensions={0}", "x0[i0]"),
        (["f32[4,6]"], "f32[8,3] reshape(x0)", "x0[i1+3*i0]"),
        (["f32[4]"], "f32[4] copy(x0)", "x0[i0]"),
        ([], "s32[3,5] iota(), iota_dimension=1", "to_i32(i1)"),
        (
            ["pred[1]", "s8[0,2]"],
            "pred[2] gather(x0, x1), offset_dims={}, collapsed_slice_dims={0}, "
            "start_index_map={}, index_vector_dim=0, slice_sizes={1}",
            "x0[0]",
        ),
        (
            ["f32[4,1]", "s32[3,1]"],
            "f32[4,3] gather(x0, x1), offset_dims={0}, collapsed_slice_dims={1}, "
            "start_index_map={1}, index_vector_dim=1, slice_sizes={4,1}",
            "x0[i0]",
        ),
    ],
)
def test_an_element_is_read_where_the_operation_says(
    parameters: Sequence[str], root: str, expected: str
) -> None:
    assert expression(traced(parameters, root)) == expected


def test_a_dynamic_slice_clamps_each_start_that_can_be_outside() -> None:
    root = "f32[2,6] dynamic-slice(x0, x1, n), dynamic_slice_sizes={2,6}"
    start = START.format("1[0]", 2)
    assert expression(traced(["f32[4,6]", "s32[]"], root)) == f"x0[i1+6*i0+6*{start}]"


def test_an_update_is_read_inside_of_its_box_alone() -> None:
    root = "f32[9] dynamic-update-slice(x0, x1, x2)"
    inner = f"i0+-1*{START.format('2[0]', 7)}"
    inside = f"bit_and(ge({inner}, 0), lt({inner}, 2))"
    found = expression(traced(["f32[9]", "f32[2]", "s32[]"], root))
    assert found == f"select({inside}, x1[{inner} if {inside}], x0[i0])"
    # An update of the whole array has no outside.
    assert expression(traced(["f32[9]", "f32[9]", "s32[]"], root)) == "x1[i0]"


def test_padding_is_tested_for_where_it_can_be() -> None:
    parameters = ["f32[5]", "f32[]"]
    found = expression(traced(parameters, "f32[8] pad(x0, x1), padding=1_2"))
    inside = "bit_and(ge(i0+-1, 0), lt(i0+-1, 5))"
    assert found == f"select({inside}, x0[i0+-1 if {inside}], x1[0])"
    found = expression(traced(parameters, "f32[9] pad(x0, x1), padding=0_0_1"))
    assert found == "select(lt((i0)%2, 1), x0[(i0)/2 if lt((i0)%2, 1)], x1[0])"
    assert expression(traced(parameters, "f32[3] pad(x0, x1), padding=-1_-1")) == "x0[i0+1]"
    assert expression(traced(["f32[0]", "f32[]"], "f32[3] pad(x0, x1), padding=1_2")) == "x1[0]"


def test_a_concatenate_reads_the_operand_that_covers_the_index() -> None:
    root = "f32[5] concatenate(x0, x1), dimensions={0}"
    found = expression(traced(["f32[2]", "f32[3]"], root))
    assert found == "select(lt(i0, 2), x0[i0 if lt(i0, 2)], x1[i0+-2 if ge(i0+-2, 0)])"
    assert expression(traced(["f32[5]", "f32[0]"], root)) == "x0[i0]"


def test_a_slice_of_a_concatenate_tests_for_no_operand_outside_of_it() -> None:
    whole = "c = f32[9] concatenate(x0, x1, x2), dimensions={0}"
    found = traced(["f32[3]", "f32[3]", "f32[3]"], "f32[2] slice(c), slice={[4:6]}", whole)
    assert expression(found) == "x1[i0+1]"


def test_a_gather_clamps_the_start_of_its_slice() -> None:
    numbers = "start_index_map={0}, index_vector_dim=1"
    rows = "offset_dims={1}, collapsed_slice_dims={0}, slice_sizes={1,6}"
    found = traced(["f32[10,6]", "s32[4]"], f"f32[4,6] gather(x0, x1), {rows}, {numbers}")
    assert expression(found) == f"x0[i1+6*{START.format('1[i0]', 9)}]"
    # A slice of the whole operand starts at 0.
    whole = "offset_dims={1,2}, collapsed_slice_dims={}, slice_sizes={10,6}"
    found = traced(["f32[10,6]", "s32[4]"], f"f32[4,10,6] gather(x0, x1), {whole}, {numbers}")
    assert expression(found) == "x0[i2+6*i1]"


@pytest.mark.parametrize(
    ("kind", "size", "is_known"), [("s32", 10, True), ("s32", 9, False), ("s8", 300, False)]
)
def test_a_gather_at_an_iota_reads_what_is_there(kind: str, size: int, is_known: bool) -> None:
    # A shorter operand has some clamped, and numbers above 127 are no s8.
    gather = (
        f"f32[{max(size, 10)}] gather(x0, p), offset_dims={{}}, collapsed_slice_dims={{0}}, "
        "slice_sizes={1}, start_index_map={0}, index_vector_dim=1"
    )
    positions = f"p = {kind}[{max(size, 10)}] iota(), iota_dimension=0"
    found = expression(traced([f"f32[{size}]"], gather, positions))
    assert (found == "x0[i0]") is is_known
