"""The functions that concatenate what is in memory, called for parts of their range."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from xla_server.codegen.kernel import Kernels
from xla_server.codegen.kernel_ir.expressions import BUFFERS, START, STOP, Apply, Expression, Index
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.routine import Routine
from xla_server.codegen.kernel_ir.statements import Call
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.routines.movement.concatenation import (
    BY_BYTES,
    BY_ROWS,
    INTERLEAVE,
    LINE_BYTES,
    TILE_BYTES,
)
from xla_server.codegen.routines.movement.transposed_tiles import SIDES, tile_name
from xla_server.runtime.native import callable_at


def table_of(sizes: Sequence[int], rows: int, gap: int, block: int) -> tuple[Any, int]:
    """The table of operands without gaps, each with a run of `sizes` bytes in a row.

    The result has `gap` bytes behind each. Second, the bytes of a row of the result.
    """
    begins = [0, *itertools.accumulate(sizes)]
    entries = [
        (2 + n, 0, size, begins[n] + n * gap, size, begins[n]) for n, size in enumerate(sizes)
    ]
    row_bytes = begins[-1] + gap * len(sizes)
    return np.array([len(sizes), row_bytes, begins[-1], rows, block, *sum(entries, ())]), row_bytes


def calling(routine: Routine, *operands: Expression) -> Call:
    """A call of a routine for the work items that the kernel is called for."""
    return Call(routine, (BUFFERS, START, STOP, *operands))


def copied(
    call: Call, sizes: Sequence[int], rows: int, parts: Sequence[int], gap: int = 0, block: int = 7
) -> tuple[Any, Any]:
    """(result, what it is to be) of a kernel that is called from each of `parts` to the next."""
    kernel = Kernels().get(Kernel((), (), (call,)))
    random = np.random.default_rng(0)
    arrays = [random.integers(1, 256, (rows, size)).astype(np.uint8) for size in sizes]
    table, row_bytes = table_of(sizes, rows, gap, block)
    result = np.zeros((rows, row_bytes), np.uint8)
    buffers = np.array([array.ctypes.data for array in (table, result, *arrays)])
    for start, stop in itertools.pairwise(parts):
        callable_at(kernel.address, 3)(buffers.ctypes.data, start, stop)
    behind = np.zeros((rows, gap), np.uint8)
    return result, np.concatenate([part for array in arrays for part in (array, behind)], 1)


SIZES = [
    [1, 2, 3, 4, 5, 8, 11, 16, 20, 32, 40, 64, 100, 128, 200],
    [500],
    [1, 1000, 1],
    [7] * 50,
]


@pytest.mark.parametrize("gap", [0, 3])
@pytest.mark.parametrize("sizes", SIZES)
def test_lines_of_bytes(sizes: list[int], gap: int) -> None:
    rows = 30
    lines = -(-rows * sum(sizes) // LINE_BYTES)
    call = calling(BY_BYTES)
    for parts in ([0, lines], [0, 1, 2, 17, lines // 2, lines], [0, 0, lines, lines]):
        result, expected = copied(call, sizes, rows, parts, gap)
        np.testing.assert_array_equal(result, expected)


def test_other_lines_stay_as_they_are() -> None:
    result, expected = copied(calling(BY_BYTES), [100, 60], 40, [3, 9])
    expected.reshape(-1)[: 3 * LINE_BYTES] = 0
    expected.reshape(-1)[9 * LINE_BYTES :] = 0
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("gap", [0, 3])
@pytest.mark.parametrize("sizes", SIZES)
def test_rows(sizes: list[int], gap: int) -> None:
    call = calling(BY_ROWS)
    for parts in ([0, 30], [0, 1, 16, 30], [0, 0, 30, 30]):
        result, expected = copied(call, sizes, 30, parts, gap)
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("count", [16, 17, 40])
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_tiles(width: int, side: int, count: int) -> None:
    if side * side * width > 1024:
        pytest.skip("there is no such tile")
    tile = Apply(f"{tile_name(width, side)}_address", (), Type.I64)
    call = calling(INTERLEAVE, tile, Index(side), Index(width))
    for rows in (TILE_BYTES // width, 2 * TILE_BYTES // width + 5):
        blocks = -(-rows * width // TILE_BYTES)
        for parts in ([0, blocks], [0, 0, 1, blocks]):
            result, expected = copied(call, [width] * count, rows, parts)
            np.testing.assert_array_equal(result, expected)
