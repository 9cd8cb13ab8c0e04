"""Sums of products: types, windows and graphs. Results are those of lower/contraction."""

from collections.abc import Sequence

import pytest

from tests.unit.codegen.trace.traced import expression, traced
from tests.unit.passes.passing import stated
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.codegen.kernel_ir.unrolling import MAX_COPIES
from xla_server.codegen.trace.contraction import (
    MAX_TESTED_COPIES,
    accumulated_type,
    is_filter,
    type_of_sums,
)


def _array(kind: str) -> Shape:
    return Shape.array(ElementType[kind], (2,))


@pytest.mark.parametrize(
    ("operands", "result", "expected"),
    [
        (("BF16", "BF16"), "BF16", "F32"),
        (("F32", "F64"), "F32", "F64"),
        (("F32", "F32"), "F64", "F64"),
        (("F32", "C64"), "C64", "C64"),
        (("F64", "C64"), "C64", "C128"),
        (("S8", "S8"), "S32", "S32"),
        (("S8", "F32"), "S8", "F32"),
        (("PRED", "PRED"), "PRED", "S32"),
    ],
)
def test_products_are_added_in_the_widest_of_their_types(
    operands: tuple[str, str], result: str, expected: str
) -> None:
    left, right = map(_array, operands)
    for pair in ((left, right), (right, left)):
        assert accumulated_type(pair, _array(result)) is ElementType[expected]


@pytest.mark.parametrize(
    ("size", "features", "pad", "expected"),
    [
        (MAX_COPIES, 1, 0, True),
        (MAX_COPIES + 1, 1, 0, False),
        (MAX_TESTED_COPIES, 1, 1, True),
        (MAX_TESTED_COPIES + 1, 1, 1, False),
        (3, 2, 0, False),
    ],
)
def test_short_windows_over_one_feature_are_filters(
    size: int, features: int, pad: int, expected: bool
) -> None:
    results = 200 - size + 1 + 2 * pad
    convolution = (
        f"f32[1,{results},1] convolution(x0, x1), window={{size={size} pad={pad}_{pad}}}, "
        "dim_labels=b0f_0io->b0f"
    )
    module = stated([f"f32[1,200,{features}]", f"f32[{size},{features},1]"], convolution)
    assert is_filter(module.entry.root) is expected


MATRICES = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def test_a_product_is_a_sum_over_the_contracted_dimension() -> None:
    found = traced(["f32[4,6]", "f32[6,5]"], f"f32[4,5] dot(x0, x1), {MATRICES}")
    assert expression(found) == "[k<6: add(a, mul(x0[k+6*i0], x1[i1+5*k]))]"


def test_batches_are_indexed_in_both_and_narrow_sums_are_rounded_once() -> None:
    batch = "lhs_batch_dims={0}, rhs_batch_dims={0}"
    dims = f"{batch}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}"
    found = traced(["bf16[2,4,6]", "bf16[2,6,5]"], f"bf16[2,4,5] dot(x0, x1), {dims}")
    product = "mul(x0[k+6*i1+24*i0], x1[i2+5*k+30*i0])"
    assert expression(found) == f"round_bf16([k<6: add(a, {product})])"


def test_a_sum_of_one_product_is_the_product() -> None:
    found = traced(["f32[4,1]", "f32[1,5]"], f"f32[4,5] dot(x0, x1), {MATRICES}")
    assert expression(found) == "mul(x0[i0], x1[i1])"


@pytest.mark.parametrize(
    ("result", "expected"),
    [("BF16", "F32"), ("F32", "F32"), ("F64", "F64"), ("PRED", "S32"), ("S8", "S8"), ("C64",) * 2],
)
def test_the_type_of_sums(result: str, expected: str) -> None:
    assert type_of_sums(ElementType[result]) is ElementType[expected]


LABELS = "dim_labels=b0f_0io->b0f"
INSIDE = "bit_and(ge(i1+k+-1, 0), lt(i1+k+-1, 6))"


@pytest.mark.parametrize(
    ("parameters", "result", "attributes", "expected"),
    [
        (
            ["f32[1,6,2]", "f32[3,2,4]"],
            "f32[1,4,4]",
            "window={size=3}",
            "[k<3 k<2: add(a, mul(x0[k+2*i1+2*k], x1[i2+4*k+8*k]))]",
        ),
        # Every element under the window is a hole.
        (
            ["f32[1,6,2]", "f32[1,2,4]"],
            "f32[1,5,4]",
            "window={size=1 stride=2 pad=-1_0 lhs_dilate=2}",
            "add(0.0, 0.0)",
        ),
        # Padding takes no part in the sum, whatever the weight is.
        (
            ["f32[1,6,1]", "f32[3,1,4]"],
            "f32[1,6,4]",
            "window={size=3 pad=1_1}",
            f"[k<3: add(a, select({INSIDE}, mul(x0[i1+k+-1 if {INSIDE}], x1[i2+4*k]), 0.0))]",
        ),
        (
            ["f32[1,6,4]", "f32[1,1,4]"],
            "f32[1,6,4]",
            "window={size=1}, feature_group_count=4",
            "mul(x0[i2+4*i1], x1[i2])",
        ),
        (
            ["f32[2,6,1]", "f32[1,1,4]"],
            "f32[1,6,4]",
            "window={size=1}, batch_group_count=2",
            "mul(x0[i1+6*(i2)/2], x1[i2])",
        ),
    ],
)
def test_products_under_the_window_are_summed(
    parameters: Sequence[str], result: str, attributes: str, expected: str
) -> None:
    root = f"{result} convolution(x0, x1), {LABELS}, {attributes}"
    assert expression(traced(parameters, root)) == expected
