"""Running sums, products and maxima by kernels for a GPU, beside the interpreter."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.cuda_twin.codes import assert_same, both, names
from tests.unit.codegen.lower.indexing.test_scatter import combiner
from tests.unit.codegen.lower.reduction.test_scan import running
from xla_client import ops
from xla_client.programs.builder import Op
from xla_server.codegen.gpu.lower.reduction import scan_levels


@pytest.mark.parametrize(
    "dtype",
    ["b1", "i1", "i4", "u8", "f2", "f4", "f8", "c8", "c16", ml_dtypes.bfloat16, ml_dtypes.int4],
)
def test_sums_of_every_type(dtype: Any) -> None:
    x = np.random.default_rng(1).integers(0, 3, (2, 70, 3)).astype(dtype)
    for axis in (0, 1, 2):
        assert_same(running(ops.add, dtype, x.shape, axis), x, np.ones((), dtype))
    x = np.random.default_rng(1).integers(0, 3, (2, 1100)).astype(dtype)
    assert_same(running(ops.add, dtype, x.shape, 1), x, np.ones((), dtype))


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        *(((3, length), 1) for length in (2, 8, 9, 31, 33, 1024, 1025, 1281)),
        *(((2, length, 5), 1) for length in (2, 64, 65, 129, 500)),
        ((5000, 3), 0),
    ],
)
@pytest.mark.parametrize("behind", [False, True])
def test_every_length(shape: tuple[int, ...], axis: int, behind: bool) -> None:
    x = np.random.default_rng(2).integers(-9, 9, shape).astype(np.int32)
    assert_same(running(ops.add, "i4", shape, axis, behind), x, np.int32(5))


@pytest.mark.parametrize("function", [ops.max, ops.min, ops.mul])
@pytest.mark.parametrize(("shape", "axis"), [((3, 1100), 1), ((150, 3), 0)])
def test_other_reducers(function: Callable[..., Op], shape: tuple[int, ...], axis: int) -> None:
    # Products of powers of two, which are exact and no subnormal numbers.
    x = np.random.default_rng(3).choice(np.float32([0.5, -2, 1, -1, 0.25, 4]), shape)
    x[1, 2], x[2, 1] = np.nan, -np.inf
    x[0] = np.where(x[0] < 0, np.float32(-0.0), np.float32(0.0))
    start = {ops.max: -np.inf, ops.min: np.inf, ops.mul: 1}[function]
    for behind in (False, True):
        assert_same(running(function, "f4", shape, axis, behind), x, np.float32(start))


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_sums_of_many_floats(dtype: str) -> None:
    x = np.random.default_rng(4).standard_normal(5000).astype(dtype)
    ((ours, expected),) = both(running(ops.add, dtype, x.shape, 0), x, np.zeros((), dtype))
    exact = np.cumsum(x.astype(np.clongdouble if dtype == "c16" else np.longdouble))
    epsilon = np.finfo(dtype).eps
    assert np.max(np.abs(ours - exact)) <= epsilon * np.max(np.abs(exact))
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e3 * epsilon)


def test_a_reducer_that_is_not_known_keeps_its_order() -> None:
    x = np.random.default_rng(4).integers(-3, 3, (3, 100, 2)).astype(np.int32)

    def reducer(total: Op, element: Op) -> Op:
        return total * 3 - element

    for axis in (1, 2):
        function = running(reducer, "i4", x.shape, axis)
        assert names(function, x, np.int32(7)) == [""]
        assert_same(function, x, np.int32(7))


@pytest.mark.parametrize("axis", [0, 1])
def test_several_arrays_run_together(axis: int) -> None:
    def reducer(best: Op, place: Op, value: Op, number: Op) -> Op:
        keep = ops.ge(best, value)
        return ops.tuple([ops.select(keep, best, value), ops.select(keep, place, number)])

    largest = combiner(reducer, "f4", "i4", "f4", "i4")
    x = np.random.default_rng(5).integers(-5, 9, (12, 13)).astype(np.float32)
    window = [12, 1] if axis == 0 else [1, 13]
    padding = [(11, 0), (0, 0)] if axis == 0 else [(0, 0), (12, 0)]

    def function(x: Op, numbers: Op, first: Op, none: Op) -> Op:
        return ops.reduce_window_with_general_padding(
            [x, numbers], [first, none], largest, window, [1, 1], padding=padding
        )

    numbers = np.arange(12 * 13, dtype=np.int32).reshape(12, 13)
    assert_same(function, x, numbers, np.float32(-np.inf), np.int32(-1))


def test_long_lines_have_parts_whose_totals_are_scanned() -> None:
    def of(shape: tuple[int, ...], axis: int) -> list[str]:
        x = np.zeros(shape, np.float32)
        return names(running(ops.add, "f4", shape, axis), x, np.float32(0))

    assert of((4, 1024), 1) == of((64, 4), 0) == of((70, 1 << 15), 0) == [""]
    assert of((4, 1025), 1) == of((65, 4), 0) == ["totals", "1", ""]
    long = ["totals", "1.totals", "2", "1", ""]
    assert of((1 << 19,), 0) == long


@pytest.mark.parametrize(("shape", "axis"), [((2, 2500), 1), ((300, 3), 0)])
@pytest.mark.parametrize("behind", [False, True])
def test_totals_have_parts_of_their_own(
    shape: tuple[int, ...], axis: int, behind: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, size in (("WARP_LINE", 64), ("WARP_PART", 32), ("THREAD_PART", 4)):
        monkeypatch.setattr(scan_levels, name, size)
    x = np.random.default_rng(6).integers(-9, 9, shape).astype(np.int32)
    function = running(ops.add, "i4", shape, axis, behind)
    assert "2" in names(function, x, np.int32(3))
    assert_same(function, x, np.int32(3))
