import numpy as np

from tests.corpus.single_op import result_of
from xla_contract.ops.shaping.slice import SliceAttributes
from xla_contract.types.opcode import Opcode


def test_a_strided_box() -> None:
    numbers = np.arange(30).reshape(5, 6)
    attributes = SliceAttributes((1, 0), (5, 6), (3, 4))
    result = result_of(Opcode.SLICE, numbers, attributes=attributes)
    np.testing.assert_array_equal(result, numbers[1:5:3, 0:6:4])
    assert result_of(Opcode.SLICE, np.array(3), attributes=SliceAttributes((), (), ())) == 3
