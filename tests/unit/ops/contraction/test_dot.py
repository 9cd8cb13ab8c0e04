from typing import Any

import ml_dtypes
import numpy as np

from tests.corpus.root_text import run_text


def test_large_integers_wrap_exactly() -> None:
    root = "s32[1,1] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    lhs = np.array([[2**31 - 1, 3]], np.int32)
    rhs = np.array([[2**31 - 1], [5]], np.int32)
    assert run_text(["s32[1,2]", "s32[2,1]"], root, [lhs, rhs]) == [[16]]


def test_sums_of_floats_saturate_as_integers() -> None:
    root = "u8[3] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    lhs = np.array([[300, 0], [-2, 1], [-2, -3]], np.float32)
    rhs = np.array([1, -1], np.float32)
    found: Any = run_text(["f32[3,2]", "f32[2]"], root, [lhs, rhs])
    assert found.tolist() == [255, 0, 1]


def test_bf16_is_rounded_once() -> None:
    root = "bf16[] dot(x0, x1), lhs_contracting_dims={0}, rhs_contracting_dims={0}"
    ones = np.ones(300, ml_dtypes.bfloat16)
    # Added up in bf16 the sum would stop at 256.
    assert run_text(["bf16[300]"] * 2, root, [ones, ones]) == 300
