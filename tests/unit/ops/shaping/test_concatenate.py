import numpy as np

from tests.corpus.single_op import result_of
from xla_contract.ops.shaping.concatenate import ConcatenateAttributes
from xla_contract.types.opcode import Opcode


def test_sizes_add_up() -> None:
    numbers = np.arange(6).reshape(2, 3)
    attributes = ConcatenateAttributes(1)
    result = result_of(Opcode.CONCATENATE, numbers, numbers[:, :1], attributes=attributes)
    np.testing.assert_array_equal(result, np.hstack([numbers, numbers[:, :1]]))
