import numpy as np
import pytest

from xla_contract.errors import InvalidArgumentError
from xla_contract.types import index
from xla_contract.types.element_type import ElementType
from xla_contract.types.layout import Layout
from xla_contract.types.shape import Shape, parse_shape

PADDED = Shape.array(ElementType.F32, (2, 3)).with_layout(Layout((0, 1), (3, 5)))


def test_a_padded_layout_puts_elements_where_the_text_on_layouts_says() -> None:
    # `a d 0 b e 0 c f 0 ...` for the rows a b c and d e f.
    places = [index.linear_index(PADDED, at) for at in np.ndindex(PADDED.dimensions)]
    assert places == [0, 3, 6, 1, 4, 7]
    assert index.memory_element_count(PADDED) == 15


def test_strides_agree_with_numpy() -> None:
    array = np.zeros((4, 2, 3), np.int8).transpose(1, 2, 0)
    assert index.strides(parse_shape("s8[2,3,4]{1,0,2}")) == array.strides
    assert index.strides(PADDED) == (1, 3)
    assert index.strides(parse_shape("f32[]")) == ()
    assert index.strides(parse_shape("f32[2,3]")) == (3, 1)


def test_what_is_not_there_is_refused() -> None:
    for at in ((2, 0), (0, -1), (0,), (0, 0, 0)):
        with pytest.raises(InvalidArgumentError, match=r"of f32\[2,3\]\{0,1\}"):
            index.linear_index(PADDED, at)
    for linear in (-1, 15):
        with pytest.raises(InvalidArgumentError, match=f"got {linear} of 15"):
            index.multi_index(PADDED, linear)
    with pytest.raises(InvalidArgumentError, match="2 in the padding"):
        index.multi_index(PADDED, 2)
    with pytest.raises(InvalidArgumentError, match="only an array"):
        index.strides(parse_shape("(f32[])"))


def test_positions_beyond_64_bits_of_products_stay_exact() -> None:
    shape = parse_shape("u8[2147483648,2147483648]{0,1}")
    last = (2**31 - 1, 2**31 - 1)
    assert index.linear_index(shape, last) == 2**62 - 1
    assert index.multi_index(shape, 2**62 - 1) == last
