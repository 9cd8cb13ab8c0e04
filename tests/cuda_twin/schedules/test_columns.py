"""Reductions of columns as kernels for a GPU on the host, beside interpreter and walker."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.cuda_twin.programs import kernels_of, on_twin, schedule_of
from tests.cuda_twin.schedules.test_rows import both, module_of, numbers, walked


def test_columns_in_the_middle_and_what_is_done_to_their_results() -> None:
    x = numbers("float32", 3, 50, 20)
    ours, expected = both(lambda x: jnp.sum(jnp.abs(x), axis=1) * 2, x)
    np.testing.assert_allclose(ours, expected, rtol=2e-6)


def test_several_loops_are_gone_through_in_order() -> None:
    x = numbers("float32", 4, 30, 5, 9)
    ours, expected = both(lambda x: jnp.max(x, axis=(0, 2)), x)
    assert_equal_bits(ours, expected)


@pytest.mark.parametrize("width", [2, 5, 8, 31, 32, 33, 100])
@pytest.mark.parametrize("height", [70, 300])
def test_tiles_of_columns_of_any_width(height: int, width: int) -> None:
    x = numbers("float32", height, width)
    assert schedule_of(module_of(lambda x: jnp.max(x, axis=0), x)) == "columns"
    assert_equal_bits(*both(lambda x: jnp.max(x, axis=0), x))
    module = module_of(lambda x: jnp.sum(jnp.abs(x), axis=0), x)
    (ours,) = on_twin(module, [x])
    assert_equal_bits(ours, walked(module, x))
    np.testing.assert_allclose(ours, np.abs(x).sum(axis=0), rtol=4e-6)


@pytest.mark.parametrize(
    ("sizes", "dtype", "blocks"),
    [
        ((1024, 1024), "float32", 128),  # 32 tiles of 32 columns would leave most of a GPU idle
        ((1024, 1024), "bfloat16", 64),  # tiles of less than a sector would load it twice
        ((1024, 1024), "float64", 128),
        ((3136, 4, 128), "float32", 64),
        ((1024, 8192), "float32", 256),
    ],
)
def test_few_columns_have_narrow_tiles(sizes: tuple[int, ...], dtype: str, blocks: int) -> None:
    with jax.enable_x64(True):
        module = module_of(lambda x: jnp.max(x, axis=0), np.zeros(sizes, jnp.dtype(dtype)))
    (grid,) = kernels_of(module).values()
    assert schedule_of(module) == "columns"
    assert (grid.blocks, grid.threads) == (blocks, 512)


@pytest.mark.parametrize(("height", "width"), [(3, 40), (17, 33), (128, 8), (300, 45)])
def test_columns_are_one_kernel_with_what_is_reduced_over_them(height: int, width: int) -> None:
    x = numbers("float32", 2, height, width)
    module = module_of(lambda x: jax.nn.softmax(x, axis=1), x)
    assert schedule_of(module) == "columns"
    ours, expected = both(lambda x: jax.nn.softmax(x, axis=1), x)
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)
    assert_equal_bits(ours, walked(module, x))


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int32", "int64", "float16", "bfloat16"]
)
def test_long_columns_of_other_types(dtype: str) -> None:
    with jax.enable_x64(True):
        x = numbers(dtype, 200, 33)
        assert_equal_bits(*both(lambda x: jnp.max(x, axis=0), x))
        x = numbers("float64", 200, 33)
        ours, expected = both(lambda x: jnp.sum(jnp.abs(x), axis=0), x)
    np.testing.assert_allclose(ours, expected, rtol=1e-14)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_long_columns_of_complex_numbers(dtype: str) -> None:
    with jax.enable_x64(True):
        x = numbers(dtype, 200, 9)
        ours, expected = both(lambda x: jnp.sum(x, axis=0), x)
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-4)
