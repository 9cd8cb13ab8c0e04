from collections.abc import Callable
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

from tests.building import scalars as combiner
from tests.processors import TARGET
from tests.unit.codegen.compiled import both, built, interpreted, on_cpu
from tests.unit.codegen.from_jax import assert_same_as_jax
from xla_client import ops
from xla_client.programs.computation import Computation
from xla_contract.types.dimension_numbers import ScatterDimensionNumbers
from xla_server.backends.compiled.cpu import Cpu
from xla_server.buffers.code import KernelThunk
from xla_server.codegen.lower.indexing.scatter_space import Space
from xla_server.codegen.lower.lowering import lower
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.ir.module import HloModule

Same = Callable[..., None]
ROWS = ScatterDimensionNumbers((1,), (0,), (0,), 1)


@pytest.mark.parametrize(
    "dtype",
    [
        *("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"),
        *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, ml_dtypes.uint4),
    ],
)
@pytest.mark.parametrize("count", [4, 20])
@pytest.mark.parametrize("name", ["add", "overwrite"])
def test_rows_are_combined_in_every_type(
    assert_same: Same, dtype: Any, name: str, count: int
) -> None:
    random = np.random.default_rng(1)
    x = random.integers(0, 2, (5, 3)).astype(dtype)
    updates = random.integers(0, 2, (count, 3)).astype(dtype)
    indices = np.resize(np.array([[1], [4], [1], [9], [-1], [0]], np.int32), (count, 1))
    function = ops.add if name == "add" else lambda old, new: new
    combine = combiner(function, dtype, dtype)
    assert_same(lambda a, i, u: ops.scatter(a, i, u, combine, ROWS), x, indices, updates)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u4", "i8", "u8"])
@pytest.mark.parametrize("count", [6, 18])
def test_windows_that_do_not_fit_are_skipped(assert_same: Same, dtype: Any, count: int) -> None:
    numbers = ScatterDimensionNumbers((1, 2), (), (0, 1), 1)
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    top = np.iinfo(dtype).max
    least = np.iinfo(dtype).min
    indices = np.array([[0, 0], [2, 2], [3, 0], [0, 3], [top, 0], [least, 1]], dtype)
    indices = np.resize(indices, (count, 2))
    updates = np.arange(count * 2 * 3, dtype=np.float32).reshape(count, 2, 3)
    add = combiner(ops.add, "f4", "f4")
    assert_same(lambda a, i, u: ops.scatter(a, i, u, add, numbers), x, indices, updates)


@pytest.mark.parametrize("width", [1, 3, 64, 65, 200])
def test_columns_are_shared_among_threads(assert_same: Same, width: int) -> None:
    random = np.random.default_rng(2)
    x = random.standard_normal((7, width)).astype(np.float32)
    indices = random.integers(-2, 9, (40, 1))
    updates = random.standard_normal((40, width)).astype(np.float32)
    last = combiner(lambda old, new: new, "f4", "f4")
    assert_same(lambda a, i, u: ops.scatter(a, i, u, last, ROWS), x, indices, updates)


def trips_of(module: HloModule) -> int:
    thunks = [
        thunk for thunk in lower(module, LOWERINGS, TARGET).thunks if isinstance(thunk, KernelThunk)
    ]
    return thunks[-1].work_items


def test_a_split_needs_a_dimension_that_indices_do_not_reach() -> None:
    def work_items(numbers: ScatterDimensionNumbers, update: tuple[int, ...]) -> int:
        x, indices = np.zeros((4, 256), np.float32), np.zeros((9, 1), np.int32)
        add = combiner(ops.add, "f4", "f4")
        return trips_of(
            built(
                lambda a, i, u: ops.scatter(a, i, u, add, numbers),
                (x, indices, np.zeros(update, np.float32)),
            )
        )

    assert work_items(ROWS, (9, 256)) == 4
    assert work_items(ScatterDimensionNumbers((0,), (1,), (1,), 1), (4, 9)) == 4
    assert work_items(ScatterDimensionNumbers((0,), (0,), (1,), 1), (256, 9)) == 1


def test_updates_of_one_position_are_applied_in_order(assert_same: Same) -> None:
    combine = combiner(lambda old, new: old * 2.0 - new, "f4", "f4")
    x, updates = np.ones((2, 1), np.float32), np.arange(5, dtype=np.float32).reshape(5, 1)
    indices = np.array([[1], [0], [1], [1], [0]])
    assert_same(lambda a, i, u: ops.scatter(a, i, u, combine, ROWS), x, indices, updates)


def test_several_operands_are_combined_together(assert_same: Same) -> None:
    combine = combiner(
        lambda a, b, c, d: ops.tuple(
            [ops.select(ops.gt(c, a), c, a), ops.select(ops.gt(c, a), d, b)]
        ),
        "f4",
        "i4",
        "f4",
        "i4",
    )
    random = np.random.default_rng(3)
    x, y = np.zeros((6, 2), np.float32), np.full((6, 2), -1, np.int32)
    values = random.standard_normal((30, 2)).astype(np.float32)
    positions = np.arange(60, dtype=np.int32).reshape(30, 2)
    indices = random.integers(0, 6, (30, 1))
    assert_same(
        lambda a, b, i, u, v: ops.scatter([a, b], i, [u, v], combine, ROWS),
        x,
        y,
        indices,
        values,
        positions,
    )


def test_the_combiner_may_compute_in_a_wider_type(assert_same: Same) -> None:
    combine = combiner(ops.add, "f4", "f4")
    x, updates = np.ones((3, 2), np.float16), np.full((4, 2), 0.5, np.float16)
    indices = np.array([[0], [2], [0], [1]])
    assert_same(lambda a, i, u: ops.scatter(a, i, u, combine, ROWS), x, indices, updates)


@pytest.mark.parametrize("shape", [(0, 3), (4, 0)])
def test_nothing_to_do(assert_same: Same, shape: tuple[int, int]) -> None:
    add = combiner(ops.add, "f4", "f4")
    x, updates = np.ones((2, shape[1]), np.float32), np.zeros(shape, np.float32)
    indices = np.zeros((shape[0], 1), np.int32)
    assert_same(lambda a, i, u: ops.scatter(a, i, u, add, ROWS), x, indices, updates)


def test_the_operand_outlives_its_scatter(assert_same: Same) -> None:
    add = combiner(ops.add, "f4", "f4")
    x, indices = np.ones((3, 2), np.float32), np.array([[1], [1]])
    updates = np.full((2, 2), 4, np.float32)
    assert_same(lambda a, i, u: ops.scatter(a, i, u, add, ROWS) * a, x, indices, updates)
    square = np.arange(4, dtype=np.float32).reshape(2, 2)
    assert_same(lambda a, i: ops.scatter(a, i, a, add, ROWS), square, np.array([[1], [0]]))


# Rounding at every step shows the order of the steps.
IN_ORDER = combiner(lambda old, new: old * np.float32(0.7) + new, "f4", "f4")
LONG_IN_ORDER = combiner(
    lambda old, new: (old * np.float32(0.7) + new) * np.float32(0.9) - new, "f4", "f4"
)
HALVES_IN_ORDER = combiner(lambda old, new: old * 0.75 + new, "f4", "f4")
PAIR_IN_ORDER = combiner(
    lambda a, b, c, d: ops.tuple([a * np.float32(0.7) + d, b * np.float32(0.9) + c]),
    *["f4"] * 4,
)
CHANCE = np.random.default_rng(6)


def drawn(*sizes: int, dtype: Any = np.float32) -> Any:
    return CHANCE.standard_normal(sizes).astype(dtype)


def places(top: int, *sizes: int, dtype: Any = np.int32) -> Any:
    """Most of them inside, some often."""
    found = np.minimum(CHANCE.integers(-3, top + 3, sizes), CHANCE.integers(-3, top + 3, sizes))
    return (found if np.dtype(dtype).kind == "i" else np.abs(found)).astype(dtype)


def scattered(numbers: ScatterDimensionNumbers, combine: Computation = IN_ORDER) -> Any:
    return lambda x, i, u: ops.scatter(x, i, u, combine, numbers)


SHARED: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...] = (
    (scattered(ROWS), (drawn(70_000, 16), places(70_000, 2100, 1), drawn(2100, 16))),
    (scattered(ROWS), (drawn(69_999, 17), places(69_999, 2101, 1), drawn(2101, 17))),
    (scattered(ROWS, LONG_IN_ORDER), (drawn(3, 40), places(3, 900, 1), drawn(900, 40))),
    (
        scattered(ScatterDimensionNumbers((), (0,), (0,), 1)),
        (drawn(1_200_000), places(1_200_000, 40_000, 1), drawn(40_000)),
    ),
    (
        scattered(ROWS),
        (drawn(70_000, 16), places(70_000, 2100, 1, dtype=np.uint64), drawn(2100, 16)),
    ),
    (
        scattered(ScatterDimensionNumbers((), (0, 1), (1, 0), 0)),
        (drawn(1200, 900), places(1200, 2, 40, 1000), drawn(40, 1000)),
    ),
    (
        scattered(ScatterDimensionNumbers((2,), (0,), (0,), 2)),
        (drawn(70_000, 16), places(70_000, 700, 3), drawn(700, 3, 16)),
    ),
    (
        scattered(ScatterDimensionNumbers((0, 2), (1,), (1,), 1)),
        (drawn(3, 5000, 8), places(5000, 1500, 1), drawn(3, 1500, 8)),
    ),
    (
        scattered(ScatterDimensionNumbers((1, 2), (0,), (0, 1, 2), 1)),
        (drawn(4, 210, 100), places(4, 20, 3), drawn(20, 190, 98)),
    ),
    (
        scattered(ROWS, HALVES_IN_ORDER),
        (drawn(140_000, 16, dtype=np.float16), places(140_000, 2100, 1), drawn(2100, 16)),
    ),
    (
        lambda x, y, i, u: ops.scatter([x, y], i, [u, u], PAIR_IN_ORDER, ROWS),
        (drawn(70_000, 16), drawn(70_000, 16), places(70_000, 2100, 1), drawn(2100, 16)),
    ),
    (scattered(ROWS), (drawn(70_000, 16), np.full((2100, 1), 54_321), drawn(2100, 16))),
)


@pytest.mark.parametrize("case", SHARED)
def test_shared_out_updates_are_combined_in_order(
    case: tuple[Callable[..., Any], tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    function, arguments = case
    module = built(function, arguments)
    assert trips_of(module) > 1
    found = [on_cpu(module, arguments, Cpu(threads=threads)) for threads in (1, 3)]
    monkeypatch.setattr(Space, "division", lambda *_: None)
    assert trips_of(module) == 1
    expected = on_cpu(module, arguments, Cpu(threads=1))
    for results in (*found, interpreted(module, arguments)):
        for result, other in zip(results, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(result), np.asarray(other))


@pytest.mark.parametrize(
    ("numbers", "arguments"),
    [
        (
            ScatterDimensionNumbers((), (0,), (0,), 1),
            (drawn(90_000), CHANCE.permutation(90_000)[:40_000, None] * 2, drawn(40_000)),
        ),
        (ROWS, (drawn(3000, 20), CHANCE.permutation(3100)[:, None], drawn(3100, 20))),
        (ROWS, (drawn(9, 90_001), CHANCE.permutation(9)[:3, None], drawn(3, 90_001))),
    ],
)
def test_updates_of_different_positions_are_shared_out(
    assert_same: Same, numbers: ScatterDimensionNumbers, arguments: tuple[Any, ...]
) -> None:
    def function(x: Any, i: Any, u: Any) -> Any:
        return ops.scatter(x, i, u, IN_ORDER, numbers, unique_indices=True)

    assert trips_of(built(function, arguments)) > 3
    assert_same(function, *arguments)


def test_a_promise_that_is_broken_writes_nowhere_else() -> None:
    x, indices = np.zeros((4000, 16), np.float32), np.full((3000, 1), 7)
    indices[::5] = [[-1], [4000], [2**40]] * 200
    add = combiner(ops.add, "f4", "f4")
    for promises in ({"unique_indices": True}, {"indices_are_sorted": True}):
        updates = np.ones((3000, 16), np.float32)
        ((result, _),) = both(
            lambda a, i, u, p=promises: ops.scatter(a, i, u, add, ROWS, **p), x, indices, updates
        )
        assert not np.delete(np.asarray(result), 7, axis=0).any()


X = np.arange(24, dtype=np.float32).reshape(4, 6)
PLACES = np.array([3, 0, 3, -1, 17])
JAX_CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "set rows": (lambda x, i, u: x.at[i].set(u), (X, PLACES, np.ones((5, 6), np.float32))),
    "add columns": (lambda x, i, u: x.at[:, i].add(u), (X, PLACES, np.ones((4, 5), np.float32))),
    "max of points": (lambda x, i: x.at[i, i].max(9.0), (X, PLACES)),
    "multiply": (lambda x, i: x.at[i].multiply(2.0), (X, PLACES)),
    "min, clipped": (lambda x, i: x.at[i].min(3.0, mode="clip"), (X, PLACES)),
    "drop": (lambda x, i: x.at[i].set(3.0, mode="drop"), (X, PLACES)),
    "a scalar": (lambda x: x.at[()].add(2.0), (np.float32(1),)),
    "a box": (lambda x: x.at[1:3, ::2].add(2.0), (X,)),
}


@pytest.mark.parametrize("name", JAX_CASES)
def test_updates_that_jax_writes(name: str) -> None:
    function, arguments = JAX_CASES[name]
    assert_same_as_jax(function, *arguments)


def test_batching_dimensions() -> None:
    random = np.random.default_rng(4)
    x = random.integers(0, 9, (3, 5, 4)).astype(np.float32)
    indices = random.integers(0, 5, (3, 7))
    updates = random.integers(0, 9, (3, 7, 4)).astype(np.float32)
    add = jax.vmap(lambda a, i, u: a.at[i].add(u))
    assert_same_as_jax(add, x, indices, updates)
    along_columns = jax.vmap(lambda a, i, u: a.at[i].add(u), (2, 0, 1), 1)
    indices = random.integers(0, 3, (4, 7))
    updates = random.integers(0, 9, (7, 4, 5)).astype(np.float32)
    assert_same_as_jax(along_columns, x, indices, updates)


def test_the_gradient_of_a_gather() -> None:
    random = np.random.default_rng(5)
    x = random.integers(0, 9, (8, 3)).astype(np.float32)
    indices = random.integers(0, 8, (20,))
    assert_same_as_jax(jax.grad(lambda a, i: (a[i] * a[i]).sum()), x, indices)
