import numpy as np

from tests.corpus.single_op import result_of
from xla_contract.ops.elementwise.stochastic_convert import StochasticConvertAttributes
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode

TO_S8 = StochasticConvertAttributes(ElementType.S8)


def test_the_fraction_is_the_probability_of_rounding_away() -> None:
    random = np.random.default_rng(0).integers(0, 2**32, 4000, np.uint32)
    for number in (2.25, -2.25):
        operand = np.full(4000, number, np.float32)
        result = result_of(Opcode.STOCHASTIC_CONVERT, operand, random, attributes=TO_S8)
        assert set(np.abs(result).tolist()) == {2, 3}
        assert abs(result.mean() - number) < 0.03


def test_the_threshold_is_exact_and_bounds_hold() -> None:
    operand = np.array([0.5, 0.5, 126.5, 127.5, -128.5, np.nan, np.inf, 3], np.float32)
    random = np.array([2**31 - 1, 2**31, 0, 0, 0, 0, 0, 0], np.uint32)
    result = result_of(Opcode.STOCHASTIC_CONVERT, operand, random, attributes=TO_S8)
    assert result.tolist() == [1, 0, 127, 127, -128, 0, 127, 3]
