"""Scatters by kernels for a GPU, beside the interpreter, in all forms."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.cuda_twin.codes import assert_same, names
from tests.unit.codegen.lower.indexing.test_scatter import (
    IN_ORDER,
    PAIR_IN_ORDER,
    ROWS,
    combiner,
    drawn,
    places,
    scattered,
)
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.types.dimension_numbers import ScatterDimensionNumbers
from xla_server.codegen.gpu.lower.indexing import scatter
from xla_server.codegen.gpu.lower.indexing.scatter import Method


def is_of(form: Method, function: Callable[..., Op], *arguments: Any) -> bool:
    found = names(function, *arguments)
    if form is not Method.SORTED:
        return found == [""]
    first, *runs, last = found
    return (first, last) == ("positions", "") and all(name.startswith("runs.") for name in runs)


def assert_form(form: Method, function: Callable[..., Op], *arguments: Any) -> None:
    assert is_of(form, function, *arguments)
    assert_same(function, *arguments)


@pytest.mark.parametrize(
    "dtype",
    [
        *("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"),
        *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, ml_dtypes.uint4),
    ],
)
@pytest.mark.parametrize(("form", "count"), [(Method.WALK, 4), (Method.SORTED, 20)])
def test_rows_are_combined_in_every_type(dtype: Any, form: Method, count: int) -> None:
    random = np.random.default_rng(1)
    x = random.integers(0, 2, (5, 3)).astype(dtype)
    updates = random.integers(0, 2, (count, 3)).astype(dtype)
    indices = np.resize(np.array([[1], [4], [1], [9], [-1], [0]], np.int32), (count, 1))
    for function in (ops.add, lambda old, new: new):
        assert_form(form, scattered(ROWS, combiner(function, dtype, dtype)), x, indices, updates)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u4", "i8", "u8"])
@pytest.mark.parametrize(("form", "times"), [(Method.WALK, 1), (Method.SORTED, 9)])
def test_windows_that_do_not_fit_are_skipped(dtype: Any, form: Method, times: int) -> None:
    numbers = ScatterDimensionNumbers((1, 2), (), (0, 1), 1)
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    top, least = np.iinfo(dtype).max, np.iinfo(dtype).min
    indices = np.array([[0, 0], [2, 2], [top, 0], [least, 1]], dtype)
    indices = np.resize(indices, (2 * times, 2))
    updates = np.arange(2 * times * 2 * 3, dtype=np.float32).reshape(-1, 2, 3)
    assert_form(form, scattered(numbers), x, indices, updates)


CASES: dict[str, tuple[Method, Callable[..., Op], tuple[Any, ...]]] = {
    "one window": (Method.DIRECT, scattered(ROWS), (drawn(9, 5), places(9, 1, 1), drawn(1, 5))),
    "unique indices": (
        Method.DIRECT,
        lambda x, i, u: ops.scatter(x, i, u, IN_ORDER, ROWS, unique_indices=True),
        (drawn(40, 7), np.random.default_rng(1).permutation(50)[:, None] - 5, drawn(50, 7)),
    ),
    "rows": (Method.SORTED, scattered(ROWS), (drawn(50, 17), places(50, 300, 1), drawn(300, 17))),
    "one row": (Method.SORTED, scattered(ROWS), (drawn(1, 3), places(1, 200, 1), drawn(200, 3))),
    "elements": (
        Method.SORTED,
        scattered(ScatterDimensionNumbers((), (0,), (0,), 1)),
        (drawn(600), places(600, 2000, 1), drawn(2000)),
    ),
    "points by vectors in columns": (
        Method.SORTED,
        scattered(ScatterDimensionNumbers((), (0, 1), (1, 0), 0)),
        (drawn(8, 9), places(8, 2, 4, 50), drawn(4, 50)),
    ),
    "windows between the vectors": (
        Method.SORTED,
        scattered(ScatterDimensionNumbers((0, 2), (1,), (1,), 1)),
        (drawn(3, 20, 5), places(20, 40, 1), drawn(3, 40, 5)),
    ),
    "windows that overlap": (
        Method.SORTED,
        scattered(ScatterDimensionNumbers((1, 2), (), (0, 1), 1)),
        (drawn(9, 8), places(7, 30, 2), drawn(30, 3, 2)),
    ),
    "windows that overlap before their vectors": (
        Method.SORTED,
        scattered(ScatterDimensionNumbers((0,), (), (0,), 1)),
        (drawn(12), places(10, 30, 1), drawn(4, 30)),
    ),
    "an index without a window": (
        Method.WALK,
        scattered(ScatterDimensionNumbers((), (0,), (0,), 1)),
        (drawn(6), places(6, 9, 1), drawn(9)),
    ),
    "batches": (
        Method.SORTED,
        scattered(
            ScatterDimensionNumbers(
                (2,), (1,), (1,), 2, input_batching_dims=(0,), scatter_indices_batching_dims=(0,)
            )
        ),
        (drawn(3, 6, 4), places(6, 3, 20, 1), drawn(3, 20, 4)),
    ),
    "pairs": (
        Method.SORTED,
        lambda x, y, i, u, v: ops.scatter([x, y], i, [u, v], PAIR_IN_ORDER, ROWS),
        (drawn(6, 2), drawn(6, 2), places(6, 30, 1), drawn(30, 2), drawn(30, 2)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_updates_are_combined_in_order(name: str) -> None:
    form, function, arguments = CASES[name]
    assert_form(form, function, *arguments)


@pytest.mark.parametrize("shape", [(0, 3), (4, 0)])
def test_nothing_to_do(shape: tuple[int, int]) -> None:
    x, updates = np.ones((2, shape[1]), np.float32), np.zeros(shape, np.float32)
    indices = np.zeros((shape[0], 1), np.int32)
    assert names(scattered(ROWS), x, indices, updates) == []


def test_a_window_that_says_it_is_unique_stays_inside() -> None:
    """Updates that meet have results in some order: no access is outside of arrays."""
    x, indices, updates = drawn(4, 3), np.array([[3], [4], [-1], [2**31 - 1]]), drawn(4, 3)
    function = CASES["unique indices"][1]
    assert_same(function, x, indices, updates)


@pytest.mark.parametrize("count", [scatter.MAX_WALK, scatter.MAX_WALK + 1, 5000])
def test_forms_go_by_the_number_of_updates(count: int) -> None:
    form = Method.WALK if count <= scatter.MAX_WALK else Method.SORTED
    assert_form(form, scattered(ROWS), drawn(5, 2), places(5, count, 1), drawn(count, 2))
