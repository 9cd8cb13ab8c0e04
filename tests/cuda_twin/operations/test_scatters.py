"""Scatters by kernels for a GPU, beside the interpreter, in all forms."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.building import scalars
from tests.cuda_twin.codes import assert_same, both, names
from tests.cuda_twin.lowered import grids, lowered
from tests.unit.codegen.compiled import built
from tests.unit.codegen.lower.indexing.test_scatter import (
    IN_ORDER,
    PAIR_IN_ORDER,
    ROWS,
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


COMBINERS: dict[str, tuple[Callable[..., Op], Any]] = {
    "sums of integers": (ops.add, np.int32),
    "products of words": (ops.mul, np.uint8),
    "largest": (ops.max, np.float32),
    "any": (ops.or_, np.bool_),
    "differences of bits": (ops.xor, np.int64),
    "sums of nibbles": (ops.add, ml_dtypes.int4),
    "sums of whole floats": (ops.add, np.float32),
    "sums of whole complex numbers": (ops.add, np.complex128),
    "smallest of two bytes": (ops.min, ml_dtypes.bfloat16),
}
"""Those that are exact for whole numbers, so that bits do not depend on parts."""


@pytest.mark.parametrize("name", COMBINERS)
@pytest.mark.parametrize("shape", [(scatter.MAX_WALK + 1, 1), (300, 3), (5000, 1)])
def test_runs_of_associative_combiners_have_totals_of_parts(
    name: str, shape: tuple[int, int]
) -> None:
    operation, dtype = COMBINERS[name]
    x, updates = (np.trunc(drawn(*sizes) * 3).astype(dtype) for sizes in ((3, shape[1]), shape))
    function = scattered(ROWS, scalars(operation, dtype, dtype))
    arguments = x, places(3, shape[0], 1), updates
    assert names(function, *arguments)[-2:] == ["totals", ""]
    assert_same(function, *arguments)


def test_totals_of_sums_of_floats() -> None:
    x, indices, updates = drawn(2, 5), places(2, 3000, 1), drawn(3000, 5)
    function = scattered(ROWS, scalars(ops.add, np.float32, np.float32))
    ((ours, expected),) = both(function, x, indices, updates)
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("count", [100, 10_000, 1_000_000])
def test_no_thread_combines_more_than_the_parts_of_a_run(count: int) -> None:
    function = scattered(
        ScatterDimensionNumbers((), (0,), (0,), 1), scalars(ops.add, np.int32, np.int32)
    )
    x, indices, updates = np.zeros(10, np.int32), np.zeros((count, 1), np.int32), np.ones(count)
    *_, totals, last = grids(lowered(built(function, (x, indices, updates.astype(np.int32)))))
    for grid in (totals, last):
        # Three loads of each update of a part, and two of each part.
        assert grid.kernel.work.item.accesses <= 10 * count**0.5
