import ml_dtypes
import numpy as np

from tests.corpus.single_op import result_of
from xla_contract.ops.elementwise.reduce_precision import ReducePrecisionAttributes
from xla_contract.types.opcode import Opcode


def reduced(numbers: np.ndarray, exponent_bits: int, mantissa_bits: int) -> np.ndarray:
    attributes = ReducePrecisionAttributes(exponent_bits, mantissa_bits)
    result: np.ndarray = result_of(Opcode.REDUCE_PRECISION, numbers, attributes=attributes)
    return result


def test_the_bits_of_half_precision_round_as_half_precision() -> None:
    random = np.random.default_rng(0)
    numbers = (random.standard_normal(500) * np.exp(random.normal(0, 2, 500))).astype(np.float32)
    np.testing.assert_array_equal(reduced(numbers, 5, 10), numbers.astype(np.float16))
    np.testing.assert_array_equal(reduced(numbers, 8, 7), numbers.astype(ml_dtypes.bfloat16))


def test_too_large_is_infinite_denormal_is_zero_and_nan_stays() -> None:
    numbers = np.array([65520, 65519, 6e-5, -6e-5, np.nan, -np.inf], np.float32)
    result = reduced(numbers, 5, 10)
    np.testing.assert_array_equal(result, [np.inf, 65504, 0, 0, np.nan, -np.inf])
    assert np.signbit(result[3])
    assert reduced(np.array([3.25], ml_dtypes.float8_e4m3fn), 4, 1) == 3


def test_floats_of_8_bits_have_the_bits_of_f16_rounded() -> None:
    """2^-16 is no normal number there, so without a mantissa nothing is left of it."""
    small = np.array([2.0**-16, 3 * 2.0**-16, 1], ml_dtypes.float8_e5m2)
    attributes = ReducePrecisionAttributes(6, 0)
    found = result_of(Opcode.REDUCE_PRECISION, small, attributes=attributes)
    np.testing.assert_array_equal(found.astype(np.float32), [0, 2.0**-14, 1])
