import numpy as np

from tests.corpus.single_op import result_of
from xla_contract.ops.shaping.transpose import TransposeAttributes
from xla_contract.types.opcode import Opcode


def test_result_dimension_i_is_operand_dimension_permutation_i() -> None:
    numbers = np.arange(24).reshape(2, 3, 4)
    result = result_of(Opcode.TRANSPOSE, numbers, attributes=TransposeAttributes((2, 0, 1)))
    assert result[3, 1, 2] == numbers[1, 2, 3]
