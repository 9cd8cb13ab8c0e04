import numpy as np
import pytest

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.types import index
from xla_contract.types.element_type import ElementType
from xla_contract.types.layout import Layout
from xla_contract.types.shape import Shape, parse_shape

PADDED = Shape.array(ElementType.F32, (2, 3)).with_layout(Layout((0, 1), (3, 5)))


def test_a_padded_layout_puts_elements_where_the_text_on_layouts_says() -> None:
    # `a d 0 b e 0 c f 0 ...` for the rows a b c and d e f.
    places = [index.linear_index(PADDED, at) for at in index.indices(PADDED)]
    assert places == [0, 3, 6, 1, 4, 7]
    assert index.memory_element_count(PADDED) == 15
    assert [at for at in range(15) if not index.is_padding(PADDED, at)] == [0, 1, 3, 4, 6, 7]


def test_strides_agree_with_numpy() -> None:
    array = np.zeros((4, 2, 3), np.int8).transpose(1, 2, 0)
    assert index.strides(parse_shape("s8[2,3,4]{1,0,2}")) == array.strides
    assert index.strides(PADDED) == (1, 3)
    assert index.strides(parse_shape("f32[]")) == ()
    assert index.strides(parse_shape("f32[2,3]")) == (3, 1)


def test_logical_to_physical() -> None:
    assert index.logical_to_physical(parse_shape("f32[2,3,4]{1,0,2}")) == (1, 2, 0)


def test_indices_in_both_orders() -> None:
    shape = parse_shape("f32[2,2]{0,1}")
    assert list(index.indices(shape)) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert list(index.indices_in_memory_order(shape)) == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert list(index.indices(parse_shape("f32[]"))) == [()]
    assert list(index.indices(parse_shape("f32[2,0]"))) == []


def test_bump_walks_in_the_order_of_indices() -> None:
    shape = parse_shape("f32[2,1,3]")
    walked: list[tuple[int, ...]] = []
    at: tuple[int, ...] | None = (0, 0, 0)
    while at is not None:
        walked.append(at)
        at = index.bump(shape, at)
    assert walked == list(index.indices(shape))
    assert index.bump(parse_shape("f32[]"), ()) is None


def test_negative_dimension_numbers_count_from_the_end() -> None:
    shape = parse_shape("f32[2,3,4]")
    assert index.dimension_numbers(shape, (-1, 0)) == (2, 0)
    with pytest.raises(ShapeError, match=r"distinct, got \{2,-1\} of f32\[2,3,4\]"):
        index.dimension_numbers(shape, (2, -1))
    with pytest.raises(ShapeError, match="got 3"):
        index.dimension_numbers(shape, (3,))


def test_subshape_follows_a_path() -> None:
    shape = parse_shape("(f32[2], (s32[], pred[]))")
    assert index.subshape(shape, (1, 0)) == parse_shape("s32[]")
    assert index.subshape(shape, ()) == shape
    for path in ((2,), (0, 0), (1, -1)):
        with pytest.raises(InvalidArgumentError, match="stay inside the tuple"):
            index.subshape(shape, path)


def test_what_is_not_there_is_refused() -> None:
    for at in ((2, 0), (0, -1), (0,), (0, 0, 0)):
        with pytest.raises(InvalidArgumentError, match=r"of f32\[2,3\]\{0,1\}"):
            index.linear_index(PADDED, at)
        with pytest.raises(InvalidArgumentError):
            index.bump(PADDED, at)
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
