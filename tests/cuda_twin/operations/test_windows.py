"""Select-and-scatter by kernels for a GPU, beside the interpreter."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.cuda_twin.codes import assert_same, launches
from tests.unit.codegen.compiled import built
from tests.unit.codegen.lower.reduction.test_select_and_scatter import WINDOWS, scattered
from xla_client import ops


@pytest.mark.parametrize(
    "dtype",
    ["b1", "i1", "i4", "u8", "f2", "f4", "f8", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn],
)
def test_every_type(dtype: Any) -> None:
    random = np.random.default_rng(1)
    x = random.integers(0, 2, (3, 7, 8)).astype(dtype)
    source = random.integers(0, 2, (3, 4, 4)).astype(dtype)
    function = scattered(dtype, (1, 3, 2), (1, 2, 2), [(0, 0), (1, 1), (0, 0)])
    assert_same(function, x, source, np.zeros((), dtype))


@pytest.mark.parametrize(("shape", "source", "sizes", "strides", "padding"), WINDOWS)
def test_every_window(
    shape: tuple[int, ...],
    source: tuple[int, ...],
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    padding: list[tuple[int, int]],
) -> None:
    random = np.random.default_rng(2)
    x = random.integers(-3, 3, shape).astype(np.float32)
    added = random.integers(1, 9, source).astype(np.float32)
    # Sources combined in another order give other bits.
    function = scattered(
        "f4", sizes, strides, padding, scatter=lambda old, new: old * np.float32(0.7) + new
    )
    assert_same(function, x, added, np.float32(2))


def test_nan_and_ties() -> None:
    x = np.array([np.nan, 1, 1, np.nan, -0.0, 0.0, 3, np.nan], np.float32)
    source = np.arange(1, 7, dtype=np.float32)
    for select in (ops.ge, ops.gt, ops.le, ops.ne):
        function = scattered("f4", (3,), (1,), [(0, 0)], select, ops.sub)
        assert_same(function, x, source, np.float32(0))


def test_it_is_two_kernels_with_a_thread_for_each_window_and_element() -> None:
    arguments = np.zeros((6, 130), np.float32), np.zeros((3, 130), np.float32), np.float32(0)
    function = scattered("f4", (2, 1), (2, 1), [(0, 0), (0, 0)])
    found = launches(built(function, arguments))
    assert [row.work_items for row in found] == [3 * 130, 6 * 130]
