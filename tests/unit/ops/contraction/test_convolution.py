from typing import Any

import numpy as np
import pytest

from tests.corpus.root_text import run_text
from xla_contract.errors import ShapeError
from xla_contract.ops.contraction.convolution import ConvolutionAttributes, infer_convolution
from xla_contract.types.dimension_numbers import (
    ConvolutionDimensionNumbers,
    Window,
    WindowDimension,
)
from xla_contract.types.shape import Shape

NHWC = ConvolutionDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))


def infer(lhs: str, rhs: str, *window: WindowDimension, groups: tuple[int, int] = (1, 1)) -> str:
    attributes = ConvolutionAttributes(Window(window), NHWC, *groups)
    return str(infer_convolution([Shape.parse(lhs), Shape.parse(rhs)], attributes))


SAME = (WindowDimension(3, padding_low=1, padding_high=1), WindowDimension(3, stride=2))


def test_sizes_follow_padding_strides_and_dilations() -> None:
    assert infer("f32[2,8,9,4]", "f32[3,3,4,6]", *SAME) == "f32[2,8,4,6]"
    dilated = (
        WindowDimension(3, window_dilation=4),
        WindowDimension(3, base_dilation=3, padding_low=-2),
    )
    assert infer("f32[2,9,4,4]", "f32[3,3,4,6]", *dilated) == "f32[2,1,6,6]"
    assert infer("f32[2,8,9,4]", "f32[3,3,2,6]", *SAME, groups=(2, 1)) == "f32[2,8,4,6]"
    assert infer("f32[4,8,9,4]", "f32[3,3,4,6]", *SAME, groups=(1, 2)) == "f32[2,8,4,6]"


def test_a_kernel_larger_than_the_input_has_no_positions() -> None:
    assert infer("f32[2,2,9,4]", "f32[3,3,4,6]", WindowDimension(3), SAME[1]) == "f32[2,0,4,6]"


def test_padding_that_cuts_off_everything_leaves_no_positions() -> None:
    root = "f32[1,0,1] convolution(x0, x1), window={size=2 pad=-3_-3}, dim_labels=b0f_0io->b0f"
    ones = [np.ones((1, 3, 1), np.float32), np.ones((2, 1, 1), np.float32)]
    found: Any = run_text(["f32[1,3,1]", "f32[2,1,1]"], root, ones)
    assert found.shape == (1, 0, 1)


@pytest.mark.parametrize(
    ("lhs", "rhs", "groups", "message"),
    [
        ("f32[2,8,9,4]", "f32[3,3,5,6]", (1, 1), r"input dim 3 = 4 of f32\[2,8,9,4\] and kernel"),
        ("f32[2,8,9,4]", "f32[3,3,2,5]", (2, 1), r"multiple of the group count, got kernel dim 3"),
        ("f32[3,8,9,4]", "f32[3,3,4,6]", (1, 2), r"multiple of batch_group_count, got input dim 0"),
        ("f32[2,8,9,4]", "f32[3,3,4,6]", (0, 1), r"group counts must be positive"),
        ("f32[2,8,9,4]", "f32[3,2,4,6]", (1, 1), r"kernel's spatial sizes, got .*size=3x3"),
        ("f32[2,8,4]", "f32[3,3,4,6]", (1, 1), r"the input dimension numbers must name each"),
    ],
)
def test_broken_rules_name_both_sides(
    lhs: str, rhs: str, groups: tuple[int, int], message: str
) -> None:
    with pytest.raises(ShapeError, match=message):
        infer(lhs, rhs, *SAME, groups=groups)


@pytest.mark.parametrize("field", ["stride", "window_dilation", "base_dilation"])
def test_windows_must_move(field: str) -> None:
    bad = WindowDimension(3, **{field: 0})
    with pytest.raises(ShapeError, match=f"a window's {field} must be positive, got 0"):
        infer("f32[2,8,9,4]", "f32[3,3,4,6]", SAME[0], bad)
