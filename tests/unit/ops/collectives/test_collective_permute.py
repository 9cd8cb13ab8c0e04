import numpy as np

from tests.corpus.single_op import result_of
from xla_contract.ops.collectives.collective_permute import CollectivePermuteAttributes
from xla_contract.types.opcode import Opcode

X = np.arange(4, dtype=np.float32)


def test_several_operands() -> None:
    nobody = CollectivePermuteAttributes(())
    pair = result_of(Opcode.COLLECTIVE_PERMUTE, X, np.int8(3), attributes=nobody)
    np.testing.assert_array_equal(pair[0], np.zeros(4))
    assert pair[1] == 0
