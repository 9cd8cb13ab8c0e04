from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from tests.building import scalars
from tests.unit.codegen.from_jax import assert_same_as_jax
from xla_client import ops
from xla_client.programs.builder import Op

Same = Callable[..., None]


def scattered(
    dtype: Any,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    padding: list[tuple[int, int]],
    select: Callable[..., Op] = ops.ge,
    scatter: Callable[..., Op] = ops.add,
) -> Callable[..., Op]:
    first, second = (scalars(each, dtype, dtype) for each in (select, scatter))
    return lambda operand, source, initial: ops.select_and_scatter_with_general_padding(
        operand, first, sizes, strides, padding, source, initial, second
    )


@pytest.mark.parametrize(
    "dtype",
    ["b1", "i1", "i4", "u8", "f2", "f4", "f8", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn],
)
def test_every_type(assert_same: Same, dtype: Any) -> None:
    random = np.random.default_rng(1)
    x = random.integers(0, 2, (3, 7, 8)).astype(dtype)
    source = random.integers(0, 2, (3, 4, 4)).astype(dtype)
    function = scattered(dtype, (1, 3, 2), (1, 2, 2), [(0, 0), (1, 1), (0, 0)])
    assert_same(function, x, source, np.zeros((), dtype))


WINDOWS: list[tuple[Any, ...]] = [
    ((5,), (5,), (1,), (1,), [(0, 0)]),
    ((9,), (4,), (3,), (2,), [(0, 0)]),
    ((9,), (11,), (5,), (1,), [(3, 3)]),
    ((4,), (8,), (2,), (1,), [(5, 0)]),
    ((6, 130), (3, 130), (2, 1), (2, 1), [(0, 0), (0, 0)]),
    ((2, 5, 5, 3), (2, 2, 2, 3), (1, 3, 3, 1), (1, 2, 2, 1), [(0, 0)] * 4),
    ((0, 4), (0, 2), (1, 2), (1, 2), [(0, 0), (0, 0)]),
    ((3,), (0,), (4,), (1,), [(0, 0)]),
    ((6,), (2,), (2,), (2,), [(-1, -1)]),
]


@pytest.mark.parametrize(("shape", "source", "sizes", "strides", "padding"), WINDOWS)
def test_windows(
    assert_same: Same,
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


def test_nan_and_ties(assert_same: Same) -> None:
    x = np.array([np.nan, 1, 1, np.nan, -0.0, 0.0, 3, np.nan], np.float32)
    source = np.arange(1, 7, dtype=np.float32)
    for select in (ops.ge, ops.gt, ops.le, ops.ne):
        function = scattered("f4", (3,), (1,), [(0, 0)], select, ops.sub)
        assert_same(function, x, source, np.float32(0))


def test_the_gradient_of_a_maximum_pool() -> None:
    def pooled(x: Any, padding: str) -> Any:
        window = (1, 3, 3, 1), (1, 2, 2, 1)
        found = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, *window, padding)
        return (found * found).sum()

    x = np.random.default_rng(3).permuted(np.arange(2 * 7 * 8 * 3)).reshape(2, 7, 8, 3)
    for padding in ("SAME", "VALID"):
        gradient = jax.grad(lambda a, padding=padding: pooled(a, padding))
        assert_same_as_jax(gradient, x.astype(np.float32))


def test_a_scalar_has_one_window(assert_same: Same) -> None:
    one, two, three = (np.array(number, np.float32) for number in (1, 2, 3))
    assert_same(scattered("f4", (), (), []), one, two, three)
