import numpy as np

from tests.corpus.single_op import result_of
from xla_contract.types.opcode import Opcode


def test_copy_is_the_operand() -> None:
    numbers = np.arange(3)
    np.testing.assert_array_equal(result_of(Opcode.COPY, numbers), numbers)
