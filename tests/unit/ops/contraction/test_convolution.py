from typing import Any

import numpy as np
import pytest

from tests.corpus.root_text import run_text
from xla_contract.types.shape import Shape


def test_padding_that_cuts_off_everything_leaves_no_positions() -> None:
    root = "f32[1,0,1] convolution(x0, x1), window={size=2 pad=-3_-3}, dim_labels=b0f_0io->b0f"
    ones = [np.ones((1, 3, 1), np.float32), np.ones((2, 1, 1), np.float32)]
    found: Any = run_text(["f32[1,3,1]", "f32[2,1,1]"], root, ones)
    assert found.shape == (1, 0, 1)


@pytest.mark.parametrize(
    ("lhs", "rhs", "root"),
    [
        ("f32[2,0]", "f32[0,3]", "f32[2,3] convolution(x0, x1), dim_labels=bf_io->bf"),
        (
            "c64[6,0,3]",
            "c64[3,3,16]",
            "c64[3,1,16] convolution(x0, x1), window={size=3 stride=3 pad=1_3}, "
            "dim_labels=b0f_0io->b0f, batch_group_count=2",
        ),
    ],
)
def test_sums_without_products_are_zeros(lhs: str, rhs: str, root: str) -> None:
    ones = [
        np.ones(Shape.parse(s).dimensions, Shape.parse(s).element_type.dtype) for s in (lhs, rhs)
    ]
    found: Any = run_text([lhs, rhs], root, ones)
    assert not found.any()


@pytest.mark.parametrize(
    "window",
    [
        "stride=1000000000000 pad=1_0 lhs_dilate=1000000000000",
        "pad=1000000000000_0 rhs_dilate=1000000000000",
    ],
)
def test_gaps_and_padding_take_no_memory(window: str) -> None:
    root = f"f32[1,2,1] convolution(x0, x1), window={{size=2 {window}}}, dim_labels=b0f_0io->b0f"
    given = [np.array([[[3], [5]]], np.float32), np.array([[[2]], [[7]]], np.float32)]
    found: Any = run_text(["f32[1,2,1]", "f32[2,1,1]"], root, given)
    assert found.ravel().tolist() == [21, 35]
