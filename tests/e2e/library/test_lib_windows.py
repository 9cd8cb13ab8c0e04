"""Indexing and pooling of `xla_client.lib` on a real server, against numpy and jax."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xla_client import ops
from xla_client.lib import indexing, pooling

RANDOM = np.random.default_rng(0)
DATA = RANDOM.standard_normal((2, 7, 6, 3)).astype(np.float32)
WINDOWS = [((1, 2, 2, 1), (1, 2, 2, 1)), ((1, 3, 2, 1), (1, 2, 1, 1)), ((1, 2, 3, 1), (1, 3, 2, 1))]


@pytest.mark.parametrize("dimension", [0, 1, -1])
@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_torch_gather_and_scatter(run, dimension, dtype):
    x = RANDOM.standard_normal((4, 5, 3)).astype(np.float32)
    sizes = [3, 4, 2]
    sizes[dimension] = 6
    index = RANDOM.integers(0, x.shape[dimension], sizes).astype(dtype)
    cut = tuple(
        slice(None) if number == dimension % 3 else slice(size) for number, size in enumerate(sizes)
    )
    found = run(lambda x, i: indexing.torch_gather(x, i, dimension), x, index)
    np.testing.assert_array_equal(
        found, np.take_along_axis(x[cut], index.astype(np.int64), dimension)
    )

    source = RANDOM.standard_normal(sizes).astype(np.float32)
    summed = run(
        lambda x, i, s: indexing.torch_scatter_dense(x, i, s, dimension, ops.add), x, index, source
    )
    expected = x.copy()
    for place in np.ndindex(*sizes):
        to = list(place)
        to[dimension] = int(index[place])
        expected[tuple(to)] += source[place]
    np.testing.assert_allclose(summed, expected, rtol=1e-5, atol=1e-5)


def test_torch_index_select(run):
    x = RANDOM.standard_normal((4, 5, 3)).astype(np.float32)
    index = np.int32([[2, 0], [1, 1], [4, 3], [0, 2]])
    plain = run(lambda x, i: indexing.torch_index_select(x, i, 1), x, index)
    np.testing.assert_array_equal(plain, np.take(x, index, 1))
    batched = run(lambda x, i: indexing.torch_index_select(x, i, 1, 1), x, index)
    np.testing.assert_array_equal(batched, np.stack([x[n, index[n]] for n in range(4)]))
    last = run(lambda x, i: indexing.torch_index_select(x, i, 2, 1), x, np.minimum(index, 2))
    np.testing.assert_array_equal(
        last, np.stack([x[n][:, np.minimum(index[n], 2)] for n in range(4)])
    )


def test_dynamic_strided_slice(run):
    x = np.arange(40, dtype=np.int32).reshape(5, 8)
    found = run(
        lambda x, i, j: indexing.dynamic_strided_slice(x, [i, j], [3, 5], [2, 3]),
        x,
        np.int32(1),
        np.int32(2),
    )
    np.testing.assert_array_equal(found, x[1:4:2, 2:7:3])


def _pool(x: Any, window: Any, strides: Any, padding: str, kind: str) -> Any:
    padding = padding.upper()
    if kind == "max":
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, strides, padding)
    total = jax.lax.reduce_window(x, 0.0, jax.lax.add, window, strides, padding)
    if kind == "padded mean":
        return total / np.prod(window)
    ones = jnp.ones_like(x)
    return total / jax.lax.reduce_window(ones, 0.0, jax.lax.add, window, strides, padding)


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize(("window", "strides"), WINDOWS)
@pytest.mark.parametrize("kind", ["max", "mean", "padded mean"])
def test_pools_and_their_gradients(run, kind, window, strides, padding):
    expected, pull = jax.vjp(lambda x: _pool(x, window, strides, padding, kind), DATA)
    gradient = RANDOM.standard_normal(expected.shape).astype(np.float32)
    (expected_gradient,) = pull(gradient)
    where = (window, strides, padding)
    if kind == "max":
        found = run(lambda x: pooling.max_pool(x, *where), DATA)
        slope = run(lambda x, g: pooling.max_pool_grad(x, g, *where), DATA, gradient)
    else:
        options = {"counts_include_padding": kind == "padded mean"}
        found = run(lambda x: pooling.avg_pool(x, *where, **options), DATA)
        slope = run(lambda g: pooling.avg_pool_grad(g, DATA.shape, *where, **options), gradient)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(slope, expected_gradient, rtol=1e-5, atol=1e-6)
