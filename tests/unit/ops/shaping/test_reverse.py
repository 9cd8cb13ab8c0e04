import numpy as np
import pytest

from tests.corpus.single_op import inferred, result_of
from xla_contract.errors import ShapeError
from xla_contract.ops.shaping.reverse import ReverseAttributes
from xla_contract.types.opcode import Opcode


def test_back_to_front() -> None:
    numbers = np.arange(6).reshape(2, 3)
    result = result_of(Opcode.REVERSE, numbers, attributes=ReverseAttributes((1,)))
    np.testing.assert_array_equal(result, [[2, 1, 0], [5, 4, 3]])
    untouched = result_of(Opcode.REVERSE, numbers, attributes=ReverseAttributes(()))
    np.testing.assert_array_equal(untouched, numbers)


def test_a_scalar_stays_an_array() -> None:
    result = result_of(Opcode.REVERSE, np.array(3), attributes=ReverseAttributes(()))
    assert isinstance(result, np.ndarray)
    assert result == 3


@pytest.mark.parametrize("dimensions", [(2,), (0, 0), (-1,)])
def test_refusals(dimensions: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"distinct and in \[0, 2\)"):
        inferred(Opcode.REVERSE, ["f32[2,3]"], ReverseAttributes(dimensions))
