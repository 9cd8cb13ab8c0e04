"""Complex numbers with infinite, NaN or zero parts, as XLA's CPU backend has them."""

import numpy as np
import pytest

from tests.corpus.single_op import result_of
from xla_contract.types.opcode import Opcode

INF, NAN = np.inf, np.nan


def c(real: float, imaginary: float) -> np.ndarray:
    return np.array(complex(real, imaginary), np.complex64)


@pytest.mark.parametrize(
    ("opcode", "operands", "expected"),
    [
        (Opcode.ABS, [c(INF, NAN)], NAN),
        (Opcode.DIVIDE, [c(1, 2), c(-INF, INF)], 0),
        (Opcode.DIVIDE, [c(1, -2), c(-0.0, 0)], complex(-INF, INF)),
        (Opcode.DIVIDE, [c(NAN, -INF), c(1, 1)], complex(-INF, -INF)),
        (Opcode.EXPONENTIAL, [c(-INF, INF)], complex(NAN, NAN)),
        (Opcode.EXPONENTIAL_MINUS_ONE, [c(INF, 0)], complex(INF, 0)),
        (Opcode.LOG, [c(NAN, INF)], complex(NAN, NAN)),
        (Opcode.MAXIMUM, [c(NAN, 1), c(2, 3)], complex(2, 3)),
        (Opcode.MAXIMUM, [c(2, 1), c(2, 3)], complex(2, 1)),
        (Opcode.MINIMUM, [c(1, NAN), c(2, 3)], complex(1, NAN)),
        (Opcode.POWER, [c(INF, 0), c(-2, 0)], 0),
        (Opcode.POWER, [c(NAN, 1), c(0, 0)], 1),
        (Opcode.POWER, [c(0, 0), c(1, 1)], complex(NAN, NAN)),
        (Opcode.RSQRT, [c(1, -INF)], 0),
        (Opcode.RSQRT, [c(0, 0)], complex(INF, NAN)),
        (Opcode.SIGN, [c(INF, 1)], complex(NAN, 0)),
        (Opcode.SINE, [c(0, INF)], complex(NAN, INF)),
        (Opcode.SQRT, [c(-4, -0.0)], 2j),
        (Opcode.TANH, [c(0, INF)], complex(NAN, NAN)),
        (Opcode.TANH, [c(-INF, NAN)], -1),
    ],
)
def test_special_values(opcode: Opcode, operands: list[np.ndarray], expected: complex) -> None:
    with np.errstate(all="ignore"):
        result = np.atleast_1d(result_of(opcode, *operands))
    wanted = np.atleast_1d(np.array(expected, result.dtype))
    np.testing.assert_array_equal(result.real, wanted.real)
    np.testing.assert_array_equal(result.imag, wanted.imag)


def test_logarithm_of_one_plus_a_number_neither_overflows_nor_cancels() -> None:
    numbers = np.array([1e300 + 1e10j, -1 + 1e-3j, 1e-20 + 1e-20j])
    result = result_of(Opcode.LOG_PLUS_ONE, numbers)
    np.testing.assert_allclose(result.real, [690.7755278982137, -6.907755278982137, 1e-20])
    np.testing.assert_allclose(result.imag, [1e-290, np.pi / 2, 1e-20])


def test_functions_of_one_operand_take_subnormal_numbers_for_zeros() -> None:
    smallest = np.array([-1e-45], np.float32)
    for opcode, expected in ((Opcode.LOG, -INF), (Opcode.SQRT, -0.0), (Opcode.SIGN, -0.0)):
        with np.errstate(all="ignore"):
            result = result_of(opcode, smallest)
        assert result[0] == expected
    assert result_of(Opcode.NEGATE, smallest)[0] > 0
