from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.unit.codegen.compiled import assert_same, built
from tests.unit.codegen.from_jax import assert_same_as_jax
from xla_client import ops
from xla_client.builder import Builder
from xla_client.computation import Computation
from xla_contract.dimension_numbers import ScatterDimensionNumbers
from xla_contract.element_type import ElementType
from xla_contract.shape import Shape
from xla_server.buffers.code import KernelThunk
from xla_server.codegen.lower.lowering import lower
from xla_server.codegen.lower.lowerings import LOWERINGS

ROWS = ScatterDimensionNumbers((1,), (0,), (0,), 1)


def combiner(function: Callable[..., Any], *dtypes: Any) -> Computation:
    builder = Builder("combiner")
    shapes = [Shape.scalar(ElementType.from_dtype(np.dtype(dtype))) for dtype in dtypes]
    return builder.build(
        function(*(builder.parameter(n, shape, f"c{n}") for n, shape in enumerate(shapes)))
    )


@pytest.mark.parametrize(
    "dtype",
    [
        *("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"),
        *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, ml_dtypes.uint4),
    ],
)
@pytest.mark.parametrize("name", ["add", "overwrite"])
def test_rows_are_combined_in_every_type(dtype: Any, name: str) -> None:
    random = np.random.default_rng(1)
    x = random.integers(0, 2, (5, 3)).astype(dtype)
    updates = random.integers(0, 2, (4, 3)).astype(dtype)
    indices = np.array([[1], [4], [1], [9]], np.int32)
    function = ops.add if name == "add" else lambda old, new: new
    combine = combiner(function, dtype, dtype)
    assert_same(lambda a, i, u: ops.scatter(a, i, u, combine, ROWS), x, indices, updates)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u4", "i8", "u8"])
def test_windows_that_do_not_fit_are_skipped(dtype: Any) -> None:
    numbers = ScatterDimensionNumbers((1, 2), (), (0, 1), 1)
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    top = np.iinfo(dtype).max
    least = np.iinfo(dtype).min
    indices = np.array([[0, 0], [2, 2], [3, 0], [0, 3], [top, 0], [least, 1]], dtype)
    updates = np.arange(6 * 2 * 3, dtype=np.float32).reshape(6, 2, 3)
    add = combiner(ops.add, "f4", "f4")
    assert_same(lambda a, i, u: ops.scatter(a, i, u, add, numbers), x, indices, updates)


@pytest.mark.parametrize("width", [1, 3, 64, 65, 200])
def test_columns_are_shared_among_threads(width: int) -> None:
    random = np.random.default_rng(2)
    x = random.standard_normal((7, width)).astype(np.float32)
    indices = random.integers(-2, 9, (40, 1))
    updates = random.standard_normal((40, width)).astype(np.float32)
    last = combiner(lambda old, new: new, "f4", "f4")
    assert_same(lambda a, i, u: ops.scatter(a, i, u, last, ROWS), x, indices, updates)


def test_a_split_needs_a_dimension_that_indices_do_not_reach() -> None:
    def trips(numbers: ScatterDimensionNumbers, update: tuple[int, ...]) -> int:
        x, indices = np.zeros((4, 256), np.float32), np.zeros((9, 1), np.int32)
        add = combiner(ops.add, "f4", "f4")
        module = built(
            lambda a, i, u: ops.scatter(a, i, u, add, numbers),
            (x, indices, np.zeros(update, np.float32)),
        )
        rows = [row for row in lower(module, LOWERINGS).rows if isinstance(row, KernelThunk)]
        return rows[0].trips

    assert trips(ROWS, (9, 256)) == 4
    assert trips(ScatterDimensionNumbers((0,), (1,), (1,), 1), (4, 9)) == 4
    assert trips(ScatterDimensionNumbers((0,), (0,), (1,), 1), (256, 9)) == 1


def test_updates_of_one_position_are_applied_in_order() -> None:
    combine = combiner(lambda old, new: old * 2.0 - new, "f4", "f4")
    x, updates = np.ones((2, 1), np.float32), np.arange(5, dtype=np.float32).reshape(5, 1)
    indices = np.array([[1], [0], [1], [1], [0]])
    assert_same(lambda a, i, u: ops.scatter(a, i, u, combine, ROWS), x, indices, updates)


def test_several_operands_are_combined_together() -> None:
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
    places = np.arange(60, dtype=np.int32).reshape(30, 2)
    indices = random.integers(0, 6, (30, 1))
    assert_same(
        lambda a, b, i, u, v: ops.scatter([a, b], i, [u, v], combine, ROWS),
        x,
        y,
        indices,
        values,
        places,
    )


def test_the_combiner_may_compute_in_a_wider_type() -> None:
    combine = combiner(ops.add, "f4", "f4")
    x, updates = np.ones((3, 2), np.float16), np.full((4, 2), 0.5, np.float16)
    indices = np.array([[0], [2], [0], [1]])
    assert_same(lambda a, i, u: ops.scatter(a, i, u, combine, ROWS), x, indices, updates)


@pytest.mark.parametrize("shape", [(0, 3), (4, 0)])
def test_nothing_to_do(shape: tuple[int, int]) -> None:
    add = combiner(ops.add, "f4", "f4")
    x, updates = np.ones((2, shape[1]), np.float32), np.zeros(shape, np.float32)
    indices = np.zeros((shape[0], 1), np.int32)
    assert_same(lambda a, i, u: ops.scatter(a, i, u, add, ROWS), x, indices, updates)


def test_the_operand_outlives_its_scatter() -> None:
    add = combiner(ops.add, "f4", "f4")
    x, indices = np.ones((3, 2), np.float32), np.array([[1], [1]])
    updates = np.full((2, 2), 4, np.float32)
    assert_same(lambda a, i, u: ops.scatter(a, i, u, add, ROWS) * a, x, indices, updates)
    square = np.arange(4, dtype=np.float32).reshape(2, 2)
    assert_same(lambda a, i: ops.scatter(a, i, a, add, ROWS), square, np.array([[1], [0]]))


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
    import jax

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
    import jax

    random = np.random.default_rng(5)
    x = random.integers(0, 9, (8, 3)).astype(np.float32)
    indices = random.integers(0, 8, (20,))
    assert_same_as_jax(jax.grad(lambda a, i: (a[i] * a[i]).sum()), x, indices)
