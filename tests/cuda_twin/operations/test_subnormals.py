"""Subnormal numbers in kernels for a GPU: kept, as IEEE 754 and XLA on GPUs have them."""

from typing import Any

import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.cuda_twin.programs import on_twin
from tests.unit.codegen.compiled import built
from xla_client import ops


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arithmetic_reads_and_makes_them(dtype: Any) -> None:
    bits = np.arange(1, 400, dtype=f"u{np.dtype(dtype).itemsize}") * 7919
    x = np.concatenate([bits.view(dtype), -bits.view(dtype)])
    y = np.full_like(x, 0.75)
    rows = [
        (lambda x, y: ops.add(x, x), x + x),
        (lambda x, y: ops.sub(x, ops.neg(x)), x + x),
        (lambda x, y: ops.mul(x, y), x * y),
        (lambda x, y: ops.div(x, y), x / y),
        (lambda x, y: ops.sqrt(ops.abs(x)), np.sqrt(np.abs(x))),
        (lambda x, y: ops.ceil(x), np.ceil(x)),
    ]
    for row, expected in rows:
        (found,) = on_twin(built(row, [x, y]), [x, y])
        assert_equal_bits(found, expected)
