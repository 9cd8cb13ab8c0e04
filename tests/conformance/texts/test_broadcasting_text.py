"""Every example of XLA's text on broadcasting."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.conformance.examples import Example, assert_gives, result_of
from xla_client import Builder, Shape, ShapeError, ops

MATRIX = [[1, 2, 3], [4, 5, 6]]
ROWS = {
    "scalar": (MATRIX, 7, None, [[8, 9, 10], [11, 12, 13]]),
    "vector_by_1": (MATRIX, [7, 8, 9], [1], [[8, 10, 12], [11, 13, 15]]),
    "vector_on_the_left": ([7, 8, 9], MATRIX, [1], [[8, 10, 12], [11, 13, 15]]),
    "square_by_1": (np.zeros((3, 3)), [7.0, 8, 9], [1], [[7, 8, 9]] * 3),
    "square_by_0": (np.zeros((3, 3)), [7.0, 8, 9], [0], [[7] * 3, [8] * 3, [9] * 3]),
    "vector_and_degenerate_matrix": (
        [1, 2, 3, 4],
        [[5, 6]],
        [0],
        [[6, 7], [7, 8], [8, 9], [9, 10]],
    ),
}
OUTCOMES = [
    ("2,3,4", "3,4", (1, 2), "2,3,4"),
    ("2,1", "2,3", None, "2,3"),
    ("1,2,5", "7,2,5", None, "7,2,5"),
    ("7,2,5", "7,1,5", None, "7,2,5"),
    ("2,1", "1,3", None, "2,3"),
    ("1,2", "4,3,1", (1, 2), "4,3,2"),
    *[("5,6,7,8", str(5 + number), (number,), "5,6,7,8") for number in range(4)],
    ("5,6,7,8", "7,8", (2, 3), "5,6,7,8"),
    ("5,6,7,8", "6,7", (1, 2), "5,6,7,8"),
    ("5,6,7,8", "5,8", (0, 3), "5,6,7,8"),
]
REFUSED = [
    ("2,3", "3", None, r"f32\[2,3\].*f32\[3\]"),
    ("2,3", "3", (0,), r"dim"),
    ("7,2,5", "7,2,6", None, r"f32\[7,2,5\].*f32\[7,2,6\]"),
    ("5,6,7,8", "7,6", (2, 1), r"increas"),
    ("5,6,6,8", "6,6", (1, 1), r"increas"),
]


@pytest.mark.parametrize("name", ROWS)
def test_numbers(name: str) -> None:
    lhs, rhs, dimensions, wanted = ROWS[name]
    f32 = [np.asarray(side, np.float32) for side in (lhs, rhs)]
    assert_gives(lambda c: ops.add(c(f32[0]), c(f32[1]), dimensions), wanted)


@pytest.mark.parametrize(("lhs", "rhs", "dimensions", "wanted"), OUTCOMES)
def test_values_are_repeated_along_the_other_dimensions(
    lhs: str, rhs: str, dimensions: Sequence[int] | None, wanted: str
) -> None:
    sizes = [[int(size) for size in text.split(",")] for text in (lhs, rhs, wanted)]
    left, right = (np.arange(np.prod(each), dtype=np.float32).reshape(each) for each in sizes[:2])
    (found,) = (
        result_of(lambda c: c(left) * 100.0 + c(right))
        if dimensions is None
        else result_of(lambda c: ops.add(c(100 * left), c(right), dimensions))
    )
    assert list(found.shape) == sizes[2]
    for index in np.ndindex(*sizes[2]):
        value = 100 * _at(left, index, dimensions) + _at(right, index, dimensions)
        assert found[index] == value


def _at(array: Any, index: tuple[int, ...], dimensions: Sequence[int] | None) -> Any:
    mapped = range(len(index)) if array.ndim == len(index) else dimensions or ()
    places = zip(mapped, array.shape, strict=True)
    return array[tuple(0 if size == 1 else index[number] for number, size in places)]


@pytest.mark.parametrize(("lhs", "rhs", "dimensions", "evidence"), REFUSED)
def test_refused(lhs: str, rhs: str, dimensions: Sequence[int] | None, evidence: str) -> None:
    builder = Builder()
    operands = [
        builder.parameter(number, Shape.parse(f"f32[{text}]"))
        for number, text in enumerate((lhs, rhs))
    ]
    with pytest.raises(ShapeError, match=f"^add: .*{evidence}"):
        ops.add(*operands, dimensions)


def test_every_binary_operation_takes_the_dimensions() -> None:
    def program(c: Example) -> Any:
        return ops.max(c(MATRIX), c([4, 0, 9]), [1])

    assert_gives(program, [[4, 2, 9], [4, 5, 9]])
    assert_gives(
        lambda c: ops.lt(c(MATRIX), c([2, 6]), [0]), [[True, False, False], [True] * 2 + [False]]
    )
