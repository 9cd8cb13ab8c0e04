import numpy as np

from tests.corpus.single_op import result_of
from xla_contract.ops.shaping.reverse import ReverseAttributes
from xla_contract.types.opcode import Opcode


def test_back_to_front() -> None:
    numbers = np.arange(6).reshape(2, 3)
    result = result_of(Opcode.REVERSE, numbers, attributes=ReverseAttributes((1,)))
    np.testing.assert_array_equal(result, [[2, 1, 0], [5, 4, 3]])
    untouched = result_of(Opcode.REVERSE, numbers, attributes=ReverseAttributes(()))
    np.testing.assert_array_equal(untouched, numbers)


def test_a_scalar_stays_an_array() -> None:
    result = result_of(Opcode.REVERSE, np.array(3), attributes=ReverseAttributes(()))
    assert isinstance(result, np.ndarray)
    assert result == 3
