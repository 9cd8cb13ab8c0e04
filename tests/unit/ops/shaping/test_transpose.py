import numpy as np
import pytest

from tests.corpus.single_op import inferred, result_of
from xla_contract.errors import ShapeError
from xla_contract.ops.shaping.transpose import TransposeAttributes
from xla_contract.types.opcode import Opcode


def test_result_dimension_i_is_operand_dimension_permutation_i() -> None:
    numbers = np.arange(24).reshape(2, 3, 4)
    result = result_of(Opcode.TRANSPOSE, numbers, attributes=TransposeAttributes((2, 0, 1)))
    assert result[3, 1, 2] == numbers[1, 2, 3]
    attributes = TransposeAttributes((1, 0))
    assert inferred(Opcode.TRANSPOSE, ["f32[2,<=3]{0,1}"], attributes) == "f32[<=3,2]"


@pytest.mark.parametrize("permutation", [(0,), (0, 0), (0, 2), (-1, 0)])
def test_a_permutation_is_needed(permutation: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"the permutation must .* for f32\[2,3\]"):
        inferred(Opcode.TRANSPOSE, ["f32[2,3]"], TransposeAttributes(permutation))
