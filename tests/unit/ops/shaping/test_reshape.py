import numpy as np

from tests.corpus.single_op import result_of
from xla_contract.ops.shaping.reshape import ReshapeAttributes
from xla_contract.types.opcode import Opcode


def test_order_is_row_major_whatever_the_strides() -> None:
    numbers = np.arange(6).reshape(2, 3).T
    result = result_of(Opcode.RESHAPE, numbers, attributes=ReshapeAttributes((2, 1, 3)))
    np.testing.assert_array_equal(result.ravel(), [0, 3, 1, 4, 2, 5])
