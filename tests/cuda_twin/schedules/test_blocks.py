"""Reductions of long rows as kernels for a GPU, on the host, beside interpreter and walker."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.cuda_twin.programs import kernel_of, on_twin, rows_of, schedule_of
from tests.cuda_twin.schedules.test_rows import both, module_of, numbers, walked
from xla_server.target.gpu import MAX_WARP_ROW

LENGTHS = (MAX_WARP_ROW + 1, 1040, 2048, 4100, 9001, 20000)
"""Rows of one element for each run and of more, of whole turns and of none, of many turns."""


@pytest.mark.parametrize("length", LENGTHS)
def test_sums_are_near_and_maxima_exact(length: int) -> None:
    x = numbers("float32", 3, length)
    assert schedule_of(module_of(lambda x: jnp.max(x, axis=1), x)) == "blocks"
    assert_equal_bits(*both(lambda x: jnp.max(x, axis=1), x))
    ours, expected = both(lambda x: jnp.sum(jnp.abs(x), axis=1), x)
    np.testing.assert_allclose(ours, expected, rtol=2e-6)


@pytest.mark.parametrize("length", [1025, 2048])
def test_sums_have_the_order_that_the_ir_says(length: int) -> None:
    x = numbers("float32", 2, length)
    module = module_of(lambda x: jnp.sum(x, axis=1), x)
    (ours,) = on_twin(module, [x])
    assert_equal_bits(ours, walked(module, x))


@pytest.mark.parametrize(
    ("length", "threads"), [(1025, 128), (2048, 128), (2049, 256), (8192, 512), (100000, 512)]
)
def test_the_length_alone_says_how_many_threads_a_row_has(length: int, threads: int) -> None:
    module = module_of(lambda x: jnp.sum(x, axis=1), np.zeros((3, length), np.float32))
    (row,) = rows_of(module)
    grid = kernel_of(module, row)
    assert (grid.threads, grid.blocks) == (threads, 3)


@pytest.mark.parametrize("length", [1500, 5000, 20000])
def test_rows_are_one_kernel_with_what_is_reduced_over_them(length: int) -> None:
    def norm(x: Any) -> Any:
        mean = jnp.mean(x, axis=-1, keepdims=True)
        spread = jnp.mean((x - mean) ** 2, axis=-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(spread + 1e-5)

    x = numbers("float32", 2, length)
    for function in (lambda x: jax.nn.softmax(x, axis=-1), norm):
        assert schedule_of(module_of(function, x)) == "blocks"
        ours, expected = both(function, x)
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "reduced"),
    [
        ("bool", jnp.any),
        ("bool", jnp.all),
        ("int8", jnp.max),
        ("uint8", jnp.min),
        ("int32", jnp.sum),
        ("int64", jnp.sum),
        ("float16", jnp.min),
        ("bfloat16", jnp.max),
        ("float64", jnp.max),
    ],
)
def test_exact_reductions_of_other_types(dtype: str, reduced: Callable[..., Any]) -> None:
    with jax.enable_x64(True):
        assert_equal_bits(*both(lambda x: reduced(x, axis=1), numbers(dtype, 3, 1300)))


@pytest.mark.parametrize("dtype", ["float64", "complex64", "complex128", "bfloat16"])
def test_sums_of_other_types(dtype: str) -> None:
    with jax.enable_x64(True):
        x = jnp.abs(numbers(dtype, 3, 1300)) if dtype != "complex64" else numbers(dtype, 3, 1300)
        ours, expected = both(lambda x: jnp.sum(x, axis=1), np.asarray(x))
    bound = {"float64": 1e-13, "bfloat16": 1e-2}.get(dtype, 1e-5)
    ours, expected = (np.asarray(each, np.complex128) for each in (ours, expected))
    np.testing.assert_allclose(ours, expected, rtol=bound, atol=1e-4)


def test_nan_and_both_zeros_go_through_maxima() -> None:
    x = numbers("float32", 4, 1100)
    x[0, 1077], x[1], x[2] = np.nan, -0.0, -np.inf
    x[1, 50] = 0.0
    assert_equal_bits(*both(lambda x: jnp.max(x, axis=1), x))


def test_all_elements_are_one_row() -> None:
    x = numbers("float32", 3000)
    ours, expected = both(lambda x: jnp.sum(jnp.abs(x)), x)
    np.testing.assert_allclose(ours, expected, rtol=1e-5)
    assert_equal_bits(*both(lambda x: x - jnp.max(x), x))


def test_a_reduction_that_fewer_loops_vary_is_no_longer_than_the_others() -> None:
    x, bias = numbers("float32", 5, 1100), numbers("float32", 1, 5500)
    module = module_of(lambda x, b: jnp.sum(x, axis=1) + jnp.sum(b), x, bias)
    assert schedule_of(module) == "threads"
    module = module_of(lambda x, b: jnp.sum(x, axis=1) + jnp.sum(b), x, bias[:, :1100])
    assert schedule_of(module) == "blocks"
