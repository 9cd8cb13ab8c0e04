import numpy as np

from tests.corpus.single_op import result_of
from xla_contract.ops.shaping.get_dimension_size import GetDimensionSizeAttributes
from xla_contract.types.opcode import Opcode


def test_the_size() -> None:
    attributes = GetDimensionSizeAttributes(1)
    assert result_of(Opcode.GET_DIMENSION_SIZE, np.zeros((2, 7)), attributes=attributes) == 7
