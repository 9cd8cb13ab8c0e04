"""Every example of XLA's text on shapes and layout."""

import numpy as np
import pytest

from xla_client import Layout, Literal, Shape, ShapeError
from xla_contract.types.element_type import ElementType
from xla_contract.types.index import linear_index, multi_index
from xla_contract.types.layout import PaddingValue

LETTERS = np.array([[ord(letter) for letter in row] for row in ("abc", "def")], np.uint8)
PADDED = Layout((0, 1), (3, 5), PaddingValue.ZERO_PAD)
MEMORY = [
    (Layout((0, 1)), "a d b e c f"),
    (Layout((1, 0)), "a b c d e f"),
    (None, "a b c d e f"),
    (PADDED, "a d 0 b e 0 c f 0 0 0 0 0 0 0"),
]


@pytest.mark.parametrize(("layout", "wanted"), MEMORY)
def test_linear_memory(layout: Layout | None, wanted: str) -> None:
    shape = Shape(ElementType.U8, (2, 3), layout)
    literal = Literal.from_numpy(LETTERS, shape)
    memory = literal.linear_memory()
    assert " ".join(chr(number) if number else "0" for number in memory) == wanted
    assert Literal.from_linear_memory(shape, memory) == literal
    for index in np.ndindex(2, 3):
        place = linear_index(shape, index)
        assert memory[place] == LETTERS[index]
        assert multi_index(shape, place) == index


def test_the_padding_is_that_of_a_wider_array() -> None:
    wide = np.zeros((3, 5), np.uint8)
    wide[:2, :3] = LETTERS
    of_wide = Literal.from_numpy(wide, Shape(ElementType.U8, (3, 5), Layout((0, 1))))
    padded = Literal.from_numpy(LETTERS, Shape(ElementType.U8, (2, 3), PADDED))
    np.testing.assert_array_equal(padded.linear_memory(), of_wide.linear_memory())


def test_dimensions_are_numbered_from_either_end() -> None:
    shape = Shape.parse("f32[7,1,9]")
    assert shape.rank == 3
    assert shape.true_rank == 2
    assert [shape.dimension(number) for number in (0, 1, 2, -1, -2, -3)] == [7, 1, 9, 9, 1, 7]
    with pytest.raises(ShapeError, match=r"f32\[7,1,9\]"):
        shape.dimension(3)


def test_a_new_shape_is_row_major() -> None:
    assert Shape.parse("f32[2,3,4]").layout_or_default.minor_to_major == (2, 1, 0)
