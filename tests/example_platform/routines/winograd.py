"""Winograd's transforms M X M' of squares of features, on the memory of the walker."""

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tests.example_platform.memory import Arrays
from xla_server.codegen.routines.contraction.winograd_transforms import Rows, matrices

_Lines = Sequence[np.ndarray[Any, Any]]


def _sum(row: Sequence[Fraction], lines: _Lines) -> np.ndarray[Any, Any]:
    """Sum multiples of lines from left to right, each product and addition rounded once.

    Lines whose factor is zero are left out, so that what is not finite there spoils nothing.
    """
    total: Any = None
    for factor, line in zip(row, lines, strict=True):
        if factor:
            # A product of two f32 is exact in f64.
            product = line * np.float64(np.float32(factor))
            total = (product if total is None else product + total).astype(np.float32)
    return np.asarray(total)


def _transform(
    matrix: Rows,
    arrays: Arrays,
    source: int,
    down: int,
    across: int,
    target: int,
    target_down: int,
    target_across: int,
    count: int,
) -> int:
    """Transform a square; return 1 if a result is not finite, else 0."""
    side, size = range(len(matrix[0])), 4 * count
    columns = [
        [arrays.at(source + y * down + x * across, size).view(np.float32) for y in side]
        for x in side
    ]
    # The elements of a row of M X, for each column of X.
    rows = ([_sum(row, column) for column in columns] for row in matrix)
    found = np.array([[_sum(row, line) for row in matrix] for line in rows])
    for y, x in itertools.product(range(len(matrix)), repeat=2):
        there = arrays.at(target + y * target_down + x * target_across, size)
        there[:] = found[y, x].view(np.uint8)
    return int(not np.isfinite(found).all())


WINOGRAD: Mapping[str, Callable[..., int]] = {
    name: functools.partial(_transform, matrix)
    for name, matrix in zip(
        ("winograd_input", "winograd_kernel", "winograd_result"), matrices(), strict=True
    )
}
"""Every transform by its name in kernels."""
