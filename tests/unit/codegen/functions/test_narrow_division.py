"""Division of narrow integers, of which there are few enough to try all pairs."""

import numpy as np
import pytest

from tests.unit.codegen.compiled import assert_same
from xla_client import Op, ops


def quotient_and_rest(x: Op, y: Op) -> Op:
    return ops.tuple([ops.div(x, y), ops.rem(x, y)])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_all_pairs_of_bytes(dtype: type) -> None:
    numbers = np.arange(256).astype(np.uint8).view(dtype)
    assert_same(quotient_and_rest, *np.meshgrid(numbers, numbers))


@pytest.mark.parametrize("dtype", [np.int16, np.uint16])
def test_pairs_of_words_near_whole_quotients(dtype: type) -> None:
    random = np.random.default_rng(0)
    limits = np.iinfo(dtype)
    divisors = np.concatenate([np.arange(-40, 40), random.integers(limits.min, limits.max, 400)])
    quotients = random.integers(limits.min, limits.max, (400, 1))
    products = quotients // np.where(divisors == 0, 1, divisors) * divisors
    values = np.concatenate([products + step for step in (-1, 0, 1)]).astype(dtype)
    others = np.broadcast_to(divisors.astype(dtype), values.shape)
    edges = np.array([limits.min, limits.max, 0, 1, limits.max - 1], np.int64).astype(dtype)
    assert_same(quotient_and_rest, values, np.ascontiguousarray(others))
    assert_same(quotient_and_rest, *np.meshgrid(edges, np.append(edges, dtype(limits.max))))
