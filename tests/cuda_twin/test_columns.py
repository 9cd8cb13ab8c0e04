"""Reductions of columns as kernels for a GPU on the host, beside interpreter and walker."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.cuda_twin.programs import fitting, on_twin
from tests.cuda_twin.test_rows import both, module_of, numbers, walked
from xla_server.codegen.gpu.columns import RUN, column_kernel

HEIGHTS = (2, 7, RUN, RUN + 1, 3 * RUN, 1000)
"""Columns of one run, of whole runs, and of a last run that is shorter."""


@pytest.mark.parametrize("height", HEIGHTS)
def test_sums_are_near_and_maxima_exact(height: int) -> None:
    x = numbers("float32", height, 45)
    assert_equal_bits(*both(lambda x: jnp.max(x, axis=0), x))
    ours, expected = both(lambda x: jnp.sum(jnp.abs(x), axis=0), x)
    np.testing.assert_allclose(ours, expected, rtol=4e-6)


@pytest.mark.parametrize("height", [7, 2 * RUN + 5])
def test_sums_have_the_order_that_the_ir_says(height: int) -> None:
    x = numbers("float32", height, 40)
    module = module_of(lambda x: jnp.sum(x, axis=0), x)
    (ours,) = on_twin(module, [x])
    assert_equal_bits(ours, walked(module, x))


@pytest.mark.parametrize(
    ("dtype", "reduced"),
    [
        ("bool", jnp.any),
        ("int8", jnp.max),
        ("int32", jnp.sum),
        ("int32", jnp.prod),  # in order
        ("bfloat16", jnp.min),
    ],
)
def test_exact_reductions_of_other_types(dtype: str, reduced: Callable[..., Any]) -> None:
    assert_equal_bits(*both(lambda x: reduced(x, axis=0), numbers(dtype, 100, 33)))


def test_columns_in_the_middle_and_what_is_done_to_their_results() -> None:
    x = numbers("float32", 3, 50, 20)
    ours, expected = both(lambda x: jnp.sum(jnp.abs(x), axis=1) * 2, x)
    np.testing.assert_allclose(ours, expected, rtol=2e-6)


def test_several_loops_are_gone_through_in_order() -> None:
    x = numbers("float32", 4, 30, 5, 9)
    ours, expected = both(lambda x: jnp.max(x, axis=(0, 2)), x)
    assert_equal_bits(ours, expected)


def test_rows_and_elements_have_another_schedule() -> None:
    x = numbers("float32", 64, 64)
    for function in (lambda x: jnp.sum(x, axis=1), jnp.sum, lambda x: x + 1):
        assert column_kernel not in fitting(module_of(function, x))
