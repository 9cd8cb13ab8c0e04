"""Reductions of long rows as kernels for a GPU, on the host, beside interpreter and walker."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.cuda_twin.lowered import compiled, grids
from tests.cuda_twin.programs import kernel_of, rows_of, schedule_of
from tests.cuda_twin.schedules.test_rows import both, module_of, numbers


@pytest.mark.parametrize(
    ("length", "threads"), [(1025, 128), (2048, 128), (2049, 256), (8192, 512), (100000, 512)]
)
def test_the_length_alone_says_how_many_threads_a_row_has(length: int, threads: int) -> None:
    module = module_of(lambda x: jnp.sum(x, axis=1), np.zeros((3, length), np.float32))
    (row,) = rows_of(module)
    grid = kernel_of(module, row)
    assert (grid.threads, grid.blocks) == (threads, 3)


@pytest.mark.parametrize("dtype", ["float64", "complex64", "complex128", "bfloat16"])
def test_sums_of_other_types(dtype: str) -> None:
    with jax.enable_x64(True):
        x = jnp.abs(numbers(dtype, 3, 1300)) if dtype != "complex64" else numbers(dtype, 3, 1300)
        ours, expected = both(lambda x: jnp.sum(x, axis=1), np.asarray(x))
    bound = {"float64": 1e-13, "bfloat16": 1e-2}.get(dtype, 1e-5)
    ours, expected = (np.asarray(each, np.complex128) for each in (ours, expected))
    np.testing.assert_allclose(ours, expected, rtol=bound, atol=1e-4)


def test_a_reduction_that_fewer_loops_vary_is_no_longer_than_the_others() -> None:
    x, bias = numbers("float32", 5, 1100), numbers("float32", 1, 5500)
    module = module_of(lambda x, b: jnp.sum(x, axis=1) + jnp.sum(b), x, bias)
    assert schedule_of(module) == "threads"
    module = module_of(lambda x, b: jnp.sum(x, axis=1) + jnp.sum(b), x, bias[:, :1100])
    assert schedule_of(module) == "blocks"


@pytest.mark.parametrize(("size", "bits"), [(700, 32), (70_000, 64)])
def test_reductions_count_the_elements_of_all_their_loops(size: int, bits: int) -> None:
    """Arrays are short: only the numbers of combined elements need indices of 64 bits."""

    def largest(x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.max(x[:, :, None] * y[:, None, :], axis=(1, 2))

    x = np.zeros((3, size), np.float32)
    assert max(grid.index_bits for grid in grids(compiled(module_of(largest, x, x)))) == bits
