"""Windows as callers write them, and padding by name."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_client.programs.arguments.windows import make_window, pairs_of
from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.types.dimension_numbers import Window, WindowDimension

SIZES = st.integers(1, 12)


def test_what_is_left_out_is_trivial() -> None:
    one = WindowDimension(3, 1, 0, 0, 1, 1, False)
    assert make_window([3, 3]) == Window((one, one))
    assert make_window([]) == Window(())


def test_all_that_is_said_goes_to_its_dimension() -> None:
    window = make_window([2, 3], [4, 5], [(6, 7), (-8, 9)], [10, 11], [12, 13], [True, False])
    assert [
        (
            each.size,
            each.stride,
            each.padding_low,
            each.padding_high,
            each.base_dilation,
            each.window_dilation,
            each.window_reversal,
        )
        for each in window.dimensions
    ] == [(2, 4, 6, 7, 10, 12, True), (3, 5, -8, 9, 11, 13, False)]


@pytest.mark.parametrize(
    ("name", "argument", "given_"),
    [
        ("window_strides", "strides", [1]),
        ("padding", "padding", [(0, 0)]),
        ("base_dilations", "base_dilations", [1]),
        ("window_dilations", "window_dilations", [1]),
        ("window_reversal", "reversal", [False]),
    ],
)
def test_lists_have_one_entry_per_dimension(name: str, argument: str, given_: list[Any]) -> None:
    for wrong in (given_, given_ * 3, []):
        with pytest.raises(
            ShapeError,
            match=f"^{name} must have one entry per window dimension, got {len(wrong)} for 2 dim",
        ):
            make_window([2, 2], **{argument: wrong})
    make_window([2, 2], **{argument: given_ * 2})


DIMENSIONS = st.lists(st.tuples(st.integers(0, 40), SIZES, SIZES), max_size=4)


@settings(max_examples=30, deadline=None)
@given(DIMENSIONS)
def test_same_gives_a_window_for_every_stride_begun(dimensions: list[tuple[int, int, int]]) -> None:
    base, sizes, strides = ([each[n] for each in dimensions] for n in range(3))
    pairs = pairs_of("same", base, sizes, strides)
    for (low, high), extent, size, stride in zip(pairs, base, sizes, strides, strict=True):
        wanted = -(-extent // stride)
        padded = low + extent + high
        # The odd one is behind.
        assert 0 <= low <= high <= low + 1
        if extent:
            assert (padded - size) // stride + 1 == wanted
        if low + high:
            # And no more than that takes.
            assert padded == (wanted - 1) * stride + size


@settings(max_examples=30, deadline=None)
@given(DIMENSIONS)
def test_valid_is_none(dimensions: list[tuple[int, int, int]]) -> None:
    base, sizes, strides = ([each[n] for each in dimensions] for n in range(3))
    assert pairs_of("valid", base, sizes, strides) == ((0, 0),) * len(base)


def test_other_names_are_refused() -> None:
    name: Any = "full"
    with pytest.raises(
        InvalidArgumentError, match=r"(?m)^padding must be 'same' or 'valid', got 'full' \(str\)$"
    ) as caught:
        pairs_of(name, [3], [1], [1])
    assert "general_padding" in caught.value.hint


@pytest.mark.parametrize(("sizes", "strides"), [([1], [1, 1]), ([1, 1], [1]), ([1], [1])])
def test_there_is_a_size_and_a_stride_per_dimension(sizes: list[int], strides: list[int]) -> None:
    with pytest.raises(
        ShapeError, match=f"got {len(sizes)} sizes and {len(strides)} strides for 2 dimensions$"
    ):
        pairs_of("same", [3, 3], sizes, strides)
