import numpy as np

from tests.corpus.single_op import result_of
from xla_contract.ops.shaping.broadcast import BroadcastAttributes
from xla_contract.types.opcode import Opcode


def test_dimensions_go_where_they_are_sent_even_crosswise() -> None:
    numbers = np.arange(6).reshape(2, 3)
    attributes = BroadcastAttributes((2, 0), (3, 4, 2))
    result = result_of(Opcode.BROADCAST, numbers, attributes=attributes)
    expected = np.repeat(numbers.T[:, None, :], 4, axis=1)
    np.testing.assert_array_equal(result, expected)
    scalar = result_of(Opcode.BROADCAST, np.array(7), attributes=BroadcastAttributes((), (2, 2)))
    np.testing.assert_array_equal(scalar, np.full((2, 2), 7))
