import numpy as np
import pytest

from tests.corpus.single_op import inferred, result_of
from xla_contract.errors import ShapeError
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


@pytest.mark.parametrize(
    ("dimensions", "sizes", "message"),
    [
        ((0,), (3, 4), r"dimension 0 = 1 of f32\[1\] and dimension 0 = 3 of f32\[3,4\]"),
        ((2,), (1, 4), r"distinct and in \[0, 2\), got \{2\}"),
        ((), (1, 4), r"one entry per dimension, got 0 for f32\[1\]"),
    ],
)
def test_refusals(dimensions: tuple[int, ...], sizes: tuple[int, ...], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        inferred(Opcode.BROADCAST, ["f32[1]"], BroadcastAttributes(dimensions, sizes))


def test_dynamic_dimensions_stay_dynamic() -> None:
    attributes = BroadcastAttributes((1,), (2, 4))
    assert inferred(Opcode.BROADCAST, ["f32[<=4]"], attributes) == "f32[2,<=4]"
