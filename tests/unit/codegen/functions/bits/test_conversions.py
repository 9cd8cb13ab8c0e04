"""Conversions of floats to integers in kernels, at the ends of the integers."""

import numpy as np
import pytest

from tests.unit.codegen.compiled import assert_same
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.types.element_type import ElementType

INTEGERS = [kind for kind in ElementType if kind.is_integer]
VECTOR = 16
"""Numbers that a processor converts at once, at most; what is over is converted one by one."""


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_integer_type_saturates_and_nan_is_zero(dtype: type[np.floating]) -> None:
    powers = np.ldexp(dtype(1), np.arange(-1, 66))
    ends = np.concatenate([np.nextafter(powers, dtype(0)), powers, powers - 1, powers + 1])
    ends = np.append(ends, [0.0, np.nan, np.inf, 0.5, 1.5, np.finfo(dtype).max, 1e-40])
    numbers = np.concatenate([ends, -ends]).astype(dtype)
    assert numbers.size % VECTOR

    def to_every_integer(x: Op) -> Op:
        return ops.tuple([ops.convert_element_type(x, kind) for kind in INTEGERS], x.builder)

    assert_same(to_every_integer, numbers)
