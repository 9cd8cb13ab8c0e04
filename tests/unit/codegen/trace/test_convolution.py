"""Convolutions as graphs. Results are those of codegen/lower/contraction/test_convolution.py."""

from collections.abc import Sequence

import pytest

from tests.unit.codegen.trace.traced import expression, traced
from xla_contract.types.shape import parse_shape
from xla_server.codegen.trace.contraction import accumulated_type

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


@pytest.mark.parametrize(
    ("operands", "result", "expected"),
    [
        (("bf16[1]", "bf16[1]"), "bf16[1]", "f32"),
        (("f32[1]", "f32[1]"), "f64[1]", "f64"),
        (("c64[1]", "f64[1]"), "c64[1]", "c128"),
        (("s8[1]", "s8[1]"), "s32[1]", "s32"),
        (("pred[1]", "pred[1]"), "pred[1]", "s32"),
    ],
)
def test_the_type_of_sums(operands: Sequence[str], result: str, expected: str) -> None:
    found = accumulated_type([parse_shape(text) for text in operands], parse_shape(result))
    assert found.text == expected
