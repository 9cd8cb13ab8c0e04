"""Transposes by tiles against numpy's."""

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.processors import TARGET
from tests.unit.codegen.compiled import assert_same, built
from xla_client import ops
from xla_client.programs.builder import Op
from xla_server.buffers.code import KernelThunk
from xla_server.codegen.kernel import Kernels
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.lower.lowering import lower
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.codegen.lower.movement.transpose import (
    TransposedDimension,
    Transposition,
    transposition,
    transposition_kernel,
)
from xla_server.codegen.routines.movement.transposed_tiles import side_of, tile_name

FORMS = [
    ((33, 50), (1, 0)),
    ((16, 16), (1, 0)),
    ((5, 70), (1, 0)),
    ((70, 3), (1, 0)),
    ((3, 400), (1, 0)),
    ((300, 2), (1, 0)),
    ((1500, 5), (1, 0)),
    ((6, 1100), (1, 0)),
    ((3, 1030, 7), (0, 2, 1)),
    ((90, 5, 6), (0, 2, 1)),
    ((7, 20, 9), (2, 1, 0)),
    ((2, 17, 3, 21), (0, 3, 1, 2)),
    ((2, 17, 3, 21), (2, 3, 0, 1)),
    ((4, 5, 1, 24, 2), (3, 2, 1, 0, 4)),
    ((4, 19, 6, 5), (0, 2, 1, 3)),
    ((2, 3, 4, 5, 6), (4, 1, 3, 0, 2)),
]


def numbered(dimensions: Sequence[int], kind: Any) -> Any:
    """An array in which neighbours differ."""
    count = math.prod(dimensions)
    return (np.arange(count) % 251).astype(kind).reshape(dimensions)


@pytest.mark.parametrize(("dimensions", "permutation"), FORMS)
def test_elements_move_where_the_permutation_says(
    dimensions: tuple[int, ...], permutation: tuple[int, ...]
) -> None:
    def transposed(x: Op) -> Op:
        return ops.transpose(x, permutation)

    assert_same(transposed, numbered(dimensions, np.float32))


@pytest.mark.parametrize(
    "kind", [np.int8, np.bool_, ml_dtypes.bfloat16, ml_dtypes.int4, np.float64, np.complex64]
)
def test_elements_of_every_size_keep_their_bits(kind: Any) -> None:
    def transposed(x: Op) -> Op:
        return ops.transpose(x, (1, 0))

    assert_same(transposed, numbered((37, 45), kind))


@pytest.mark.parametrize(
    ("dimensions", "permutation"), [((100, 201), (1, 0)), ((2, 100, 3, 131), (2, 0, 3, 1))]
)
def test_matrices_of_many_blocks_are_the_work_of_a_shared_function(
    dimensions: tuple[int, ...], permutation: tuple[int, ...]
) -> None:
    """Whoever does a part of the work items does these blocks, of all matrices, and no others."""
    array = numbered(dimensions, np.float32)
    plan = transposition(dimensions, permutation, 4)
    assert plan is not None
    made = transposition_kernel(plan, TARGET.tuning.transposes)
    work_items = made.items
    assert "transpose_blocks" in made.text
    found = np.zeros([dimensions[d] for d in permutation], np.float32)
    table = (ctypes.c_int64 * 2)(array.ctypes.data, found.ctypes.data)
    unused = (ctypes.c_int64 * 2)()
    kernel = Kernels().get(made)
    call = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2)
    addresses = [ctypes.addressof(each) for each in (unused, unused, table)]
    done = []
    for start, stop in (
        (5, work_items - 3),
        (0, 5),
        (work_items - 3, work_items),
        (work_items, work_items),
    ):
        call(kernel.address)(*addresses, start, stop)
        done.append(np.count_nonzero(found))
    assert done == sorted(done)
    assert done[0] < done[2]
    np.testing.assert_array_equal(found, array.transpose(permutation))


@pytest.mark.parametrize(("dimensions", "order"), [((64, 64), (1, 0)), ((9, 40, 40), (0, 2, 1))])
def test_matrices_of_few_blocks_are_done_tile_by_tile(
    dimensions: tuple[int, ...], order: tuple[int, ...]
) -> None:
    plan = transposition(dimensions, order, 4)
    assert plan is not None
    made = transposition_kernel(plan, TARGET.tuning.transposes)
    assert "transpose_blocks" not in made.text
    assert made.effort is Effort.PLAIN
    assert_same(lambda x: ops.transpose(x, order), numbered(dimensions, np.float32))


@pytest.mark.parametrize("dimensions", [(70, 7), (7, 70), (70, 8), (8, 70)])
def test_matrices_of_few_rows_or_columns_have_no_tiles(dimensions: tuple[int, int]) -> None:
    plan = transposition(dimensions, (1, 0), 1)
    assert plan is not None
    text = transposition_kernel(plan, TARGET.tuning.transposes).text
    few = min(dimensions)
    assert ("transpose_8_" in text) == (few == 8)
    assert (f"in range({few}):" in text) == (few == 7)


def test_elements_wider_than_a_register_of_tiles_move() -> None:
    assert_same(lambda x: ops.transpose(x, (1, 0)), numbered((19, 35), np.complex128))


def test_neighbours_that_stay_neighbours_are_one_dimension() -> None:
    plan = transposition((8, 56, 57, 64), (0, 3, 1, 2), 4)
    rows, columns = TransposedDimension(64, 1, 56 * 57), TransposedDimension(56 * 57, 64, 1)
    assert plan == Transposition(
        4, rows, columns, (TransposedDimension(8, 56 * 57 * 64, 56 * 57 * 64),)
    )


def test_a_short_run_is_an_element() -> None:
    assert transposition((40, 30, 2), (1, 0, 2), 2) == Transposition(
        4, TransposedDimension(30, 1, 40), TransposedDimension(40, 30, 1), ()
    )


@pytest.mark.parametrize(
    ("dimensions", "permutation"), [((4, 5, 64), (1, 0, 2)), ((1, 40), (1, 0)), ((4, 5), (0, 1))]
)
def test_runs_that_stay_together_are_no_transposition(
    dimensions: tuple[int, ...], permutation: tuple[int, ...]
) -> None:
    assert transposition(dimensions, permutation, 4) is None


def test_tiles_fill_lines_and_fit_into_registers() -> None:
    assert [side_of(width, 100, 100) for width in (1, 2, 4, 8)] == [16, 16, 16, 8]
    assert side_of(4, 100, 9) == 8
    assert side_of(4, 3, 100) is None


def test_a_transpose_is_a_kernel_of_tiles() -> None:
    module = built(lambda x: ops.transpose(x, (1, 0)), [numbered((64, 64), np.float32)])
    (kernel,) = [
        thunk for thunk in lower(module, LOWERINGS, TARGET).thunks if isinstance(thunk, KernelThunk)
    ]
    assert tile_name(4, 16) in kernel.source
