"""Elementwise functions in blocks."""

import math

import numpy as np
import pytest

from xla_server.ops.numerics.numeric import BLOCK_ELEMENTS, in_blocks


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((), ()),
        ((0, 5), (0, 5)),
        ((3 * BLOCK_ELEMENTS + 1,), (3 * BLOCK_ELEMENTS + 1,)),
        ((2, 3, BLOCK_ELEMENTS), (2, 3, BLOCK_ELEMENTS)),
        ((7, 1, BLOCK_ELEMENTS // 2 + 1), (7, 1, BLOCK_ELEMENTS // 2 + 1)),
        ((BLOCK_ELEMENTS, 1, 3), ()),
        ((BLOCK_ELEMENTS, 5), (1, 5)),
    ],
)
def test_blocks_make_the_whole(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    x = np.arange(math.prod(left), dtype=np.float32).reshape(left)
    y = np.arange(math.prod(right), dtype=np.float32).reshape(right)
    sizes = []

    def less(arrays):
        sizes.append(arrays[0].size)
        return np.asarray(arrays[0] < arrays[1] + 7)

    result = in_blocks(less, [x, y], np.dtype(bool))
    np.testing.assert_array_equal(result, x < y + 7)
    assert result.dtype == bool
    assert max(sizes) <= BLOCK_ELEMENTS


def test_a_strided_array_is_read_where_it_lies() -> None:
    x = np.arange(4 * BLOCK_ELEMENTS, dtype=np.float32).reshape(4, -1).T

    def negative(arrays):
        assert np.shares_memory(arrays[0], x)
        return -arrays[0]

    np.testing.assert_array_equal(in_blocks(negative, [x], x.dtype), -x)
