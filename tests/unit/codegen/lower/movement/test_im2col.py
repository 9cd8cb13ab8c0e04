"""Copies of strided arrays and of windows into dense matrices, against their definition."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from xla_contract.types.element_type import ElementType
from xla_server.codegen.kernel import Kernels
from xla_server.codegen.lower.movement.im2col import (
    CopiedMatrix,
    MatrixAxis,
    SpatialDimension,
    matrix_kernel,
)
from xla_server.runtime.native import callable_at

ROWS, COLUMNS = MatrixAxis("r", 6, 8), MatrixAxis("c", 8, 1)
"""Dimensions of an array [6, 8]."""


def _padded(start: int, gap: int = 1) -> tuple[MatrixAxis, MatrixAxis]:
    """Return positions of results, and of the window, on a line of 6 elements, 8 apart."""
    line = SpatialDimension("y", 6, 8, start, gap)
    return MatrixAxis("y", 6, 1, line), MatrixAxis("w", 3, 1, line)


def _places(axes: Sequence[MatrixAxis]) -> list[int | None]:
    """Return the element of the source for each index of these axes; None where there is none."""
    found: list[int | None] = []
    for index in itertools.product(*(range(axis.size) for axis in axes)):
        location, positions = 0, dict[SpatialDimension, int]()
        for axis, number in zip(axes, index, strict=True):
            if axis.line is None:
                location += number * axis.step
            else:
                before = positions.setdefault(axis.line, axis.line.start)
                positions[axis.line] = before + number * axis.step
        for line, position in positions.items():
            element, rest = divmod(position, line.gap)
            if rest or not 0 <= element < line.size:
                break
            location += element * line.stride
        else:
            found.append(location)
            continue
        found.append(None)
    return found


def _copied(matrix: CopiedMatrix, source: Any) -> Any:
    result = np.full(matrix.rows * matrix.columns, 7, source.dtype)
    kernel = matrix_kernel(matrix, ElementType.from_dtype(source.dtype))
    table = np.array([source.ctypes.data, result.ctypes.data])
    loaded = Kernels().get(kernel)
    for start, stop in ((0, 1), (1, matrix.rows)):
        callable_at(loaded.address, 3)(table.ctypes.data, start, stop)
    return result


AT, WINDOW = _padded(-1)
MATRICES = {
    "a transpose": CopiedMatrix((COLUMNS,), (ROWS,)),
    "rows": CopiedMatrix((ROWS,), (COLUMNS,)),
    "a window inside": CopiedMatrix(_padded(0)[:1], (_padded(0)[1], COLUMNS)),
    "a window with padding": CopiedMatrix((AT,), (WINDOW, COLUMNS)),
    "rows of windows": CopiedMatrix((WINDOW, COLUMNS), (AT,)),
    "a dilated line": CopiedMatrix(_padded(-2, 2)[:1], (_padded(-2, 2)[1], COLUMNS)),
    "a reversed window": CopiedMatrix((AT,), (MatrixAxis("w", 3, -1, AT.line), COLUMNS)),
    "single elements": CopiedMatrix(
        (MatrixAxis("one", 1, 5),), (MatrixAxis("other", 1, 3), COLUMNS)
    ),
}


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
@pytest.mark.parametrize("name", MATRICES)
def test_a_copy_has_the_source_s_elements_and_zeros_around_them(name: str, dtype: Any) -> None:
    matrix, source = MATRICES[name], np.arange(1, 49).astype(dtype)
    expected = [0 if at is None else source[at] for at in _places(matrix.axes)]
    np.testing.assert_array_equal(_copied(matrix, source), np.array(expected, dtype))


@pytest.mark.parametrize("name", MATRICES)
def test_a_source_that_is_such_a_matrix_already_is_known(name: str) -> None:
    matrix = MATRICES[name]
    positions = np.array(_places(matrix.axes), object).reshape(matrix.rows, matrix.columns)
    leading = matrix.leading()
    if leading is not None:
        expected = np.add.outer(np.arange(matrix.rows) * leading, np.arange(matrix.columns))
        assert (positions == expected).all()
    assert (leading is not None) == (name in ("rows", "single elements"))
