"""The remainder of floats beside C's fmod, to the bit."""

from typing import Any

import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.unit.codegen.compiled import assert_same, both
from xla_client import ops

SPECIAL = [0.0, 1.0, 3.0, np.inf, np.nan]


def everywhere(dtype: Any) -> list[Any]:
    """Pairs of numbers of all exponents, and of those between which the formula changes."""
    info = np.finfo(dtype)
    chance = np.random.default_rng(5)
    drawn = chance.integers(0, 2 ** (8 * info.dtype.itemsize), 100, np.uint64)
    limits = [info.max, info.tiny, info.tiny * 2.0**info.nmant, info.smallest_subnormal]
    special = np.array([*SPECIAL, *limits, *np.nextafter(limits[:3], 1, dtype=dtype)], dtype)
    found = np.concatenate([drawn.astype(f"u{info.dtype.itemsize}").view(dtype), special, -special])
    return [np.ascontiguousarray(side.reshape(-1)) for side in np.meshgrid(found, found)]


def beside_multiples(dtype: Any) -> list[Any]:
    """Pairs whose quotients are next to integers, most of which round to one that is too large."""
    info = np.finfo(dtype)
    chance = np.random.default_rng(7)
    y = chance.uniform(1, 2, 30_000).astype(dtype)
    multiple = y * np.floor(2 ** chance.uniform(0, info.nmant + 3, y.size)).astype(dtype)
    towards = np.where(chance.random(y.size) < 0.7, 0, np.inf).astype(dtype)
    return [np.nextafter(multiple, towards), y]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("pairs", [everywhere, beside_multiples])
def test_it_is_exact(pairs: Any, dtype: Any) -> None:
    x, y = pairs(dtype)
    with np.errstate(all="ignore"):
        (ours, wanted) = both(ops.rem, x, y)[0]
        assert_equal_bits(ours, wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("exponent", [0, 40, -2, None])
def test_it_is_exact_for_a_constant(exponent: int | None, dtype: Any) -> None:
    # The inverse of the largest power of two is a subnormal number.
    largest = np.finfo(dtype).maxexp - 1
    divisor = 2.0 ** (largest if exponent is None else exponent)
    x = everywhere(dtype)[0][: 1 << 10]
    with np.errstate(all="ignore"):
        assert_same(lambda x: ops.rem(x, divisor), x)
