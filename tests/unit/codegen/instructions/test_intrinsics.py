"""Results of kernel instructions for special operands."""

import itertools
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

from tests.unit.codegen.compiled import both
from xla_client import ops

PAIRS = (
    *((1, 0), (-1, 0), (0, 0), (1, -0.0), (np.inf, 0), (np.inf, 1), (-np.inf, 1)),
    *((np.nan, 0), (-np.nan, 0), (np.nan, 1), (-np.nan, 1), (1, np.nan), (1, np.inf)),
)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_a_remainder_is_the_nan_that_xla_gives(dtype: Any) -> None:
    lhs, rhs = np.array(PAIRS).astype(dtype).T
    with jax.enable_x64(True):
        wanted = np.asarray(jax.jit(jax.lax.rem)(lhs, rhs)).astype(np.float64)
    for given in both(ops.rem, lhs, rhs)[0]:
        found = given.astype(np.float64)
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_extremes_of_zeros_and_of_nan_are_those_of_xla(name: str, dtype: Any) -> None:
    numbers = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -np.nan]
    # Vectors take most of these and leave some.
    lhs, rhs = np.array(3 * list(itertools.product(numbers, numbers))).astype(dtype).T
    with jax.enable_x64(True):
        wanted = np.asarray(jax.jit(getattr(jax.lax, name))(lhs, rhs)).astype(np.float64)
    signs = np.where(np.isnan(wanted), False, np.signbit(wanted))
    for given in both(getattr(ops, name), lhs, rhs)[0]:
        found = given.astype(np.float64)
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found) & ~np.isnan(found), signs)
