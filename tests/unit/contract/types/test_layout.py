import pytest

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.layout import COMBINED, Layout


def test_the_default_is_row_major() -> None:
    layout = Layout.descending(3)
    assert layout.minor_to_major == (2, 1, 0)
    assert layout.major_to_minor == (0, 1, 2)
    assert layout.is_descending
    assert not layout.is_padded


def test_padding_or_another_order_is_not_the_default() -> None:
    assert not Layout((0, 1)).is_descending
    assert not Layout((1, 0), padded_dimensions=(3, 5)).is_descending


@pytest.mark.parametrize("order", [(0, 0), (1, 2), (-1, 0), (1,)])
def test_minor_to_major_must_be_a_permutation(order: tuple[int, ...]) -> None:
    with pytest.raises(InvalidArgumentError, match=f"got .* for rank {len(order)}"):
        Layout(order)


def test_padding_needs_one_width_per_dimension() -> None:
    with pytest.raises(InvalidArgumentError, match="1 entries for rank 2"):
        Layout((1, 0), padded_dimensions=(3,))


def test_text_has_tiles_padding_alignment_size_and_memory_in_the_order_of_xla() -> None:
    layout = Layout(
        (1, 0),
        tiles=((8, 128), (2, COMBINED)),
        element_size_in_bits=4,
        memory_space=1,
        tail_padding_alignment_in_elements=2,
    )
    assert str(layout) == "{1,0:T(8,128)(2,*)L(2)E(4)S(1)}"
    assert str(Layout((0, 1))) == "{0,1}"
    assert str(Layout(())) == "{}"
