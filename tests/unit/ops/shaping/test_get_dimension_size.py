import numpy as np
import pytest

from tests.corpus.single_op import inferred, result_of
from xla_contract.errors import ShapeError
from xla_contract.ops.shaping.get_dimension_size import GetDimensionSizeAttributes
from xla_contract.types.opcode import Opcode


def test_the_size() -> None:
    attributes = GetDimensionSizeAttributes(1)
    assert result_of(Opcode.GET_DIMENSION_SIZE, np.zeros((2, 7)), attributes=attributes) == 7
    with pytest.raises(ShapeError, match=r"in \[0, 1\), got 1 for f32\[2\]"):
        inferred(Opcode.GET_DIMENSION_SIZE, ["f32[2]"], attributes)
    with pytest.raises(
        ShapeError, match=r"must fit into s32, got dimension 1 of f32\[0,3000000000"
    ):
        inferred(Opcode.GET_DIMENSION_SIZE, ["f32[0,3000000000]"], attributes)
