"""The remainder of floats on a GPU beside C's fmod."""

from typing import Any

import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.cuda_twin.programs import on_twin
from tests.unit.codegen.compiled import built
from xla_client import ops

SPECIAL = [0.0, 1.0, 3.0, np.inf, np.nan]


def numbers(dtype: Any) -> Any:
    """Numbers of all exponents and both signs, and where formulas change."""
    info = np.finfo(dtype)
    bits = np.random.default_rng(3).integers(0, 2 ** (8 * info.dtype.itemsize), 600, np.uint64)
    drawn = bits.astype(f"u{info.dtype.itemsize}").view(dtype)
    limits = [info.max, info.tiny, info.smallest_subnormal, info.tiny - info.smallest_subnormal]
    special = np.array([*SPECIAL, *limits], dtype)
    return np.concatenate([drawn, special, -special])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_exact_for_every_exponent_and_sign(dtype: Any) -> None:
    found = numbers(dtype)
    x, y = (np.ascontiguousarray(side.reshape(-1)) for side in np.meshgrid(found, found))
    (ours,) = on_twin(built(ops.rem, [x, y]), [x, y])
    with np.errstate(invalid="ignore"):
        assert_equal_bits(ours, np.fmod(x, y))
