"""Kernels of transforms that treat element by element: their shares, and what they leave alone."""

import numpy as np
import pytest

from tests.unit.codegen.lower.lowered import AVX2
from xla_contract.types.element_type import ElementType
from xla_server.buffers.code import KernelThunk
from xla_server.codegen.lower.fourier.fft_context import Context, Lines
from xla_server.codegen.lower.fourier.fft_products import (
    clear_ends,
    complete,
    copy_rows,
    half_table,
    mix,
    product,
)
from xla_server.codegen.lower.lowering import Lowering

TUNED = AVX2.tuning.fourier
LONG = 3 * TUNED.item_elements


def _context() -> Context:
    return Context(Lowering({}, AVX2), "r", ElementType.F32)


def _only(context: Context) -> KernelThunk:
    (thunk,) = context.lowering.thunks
    assert isinstance(thunk, KernelThunk)
    return thunk


def test_products_are_shared_by_parts_of_a_line() -> None:
    c, n = _context(), 4 * TUNED.item_vectors * 8
    source, target = c.new(n), c.new(n)
    product(c, source, target, Lines(1, n, 1), np.ones(n) + 0j, n, n, is_inverse=False)
    row = _only(c)
    assert row.work_items == 4
    assert (row.reads[0], row.writes) == (source.value, (target.value,))


def test_a_spectrum_s_half_turns_the_other_way_back() -> None:
    (scale, there), (back_scale, back) = (half_table(64, is_inverse=way) for way in (False, True))
    assert (scale, back_scale) == (0.5, 1.0)
    assert there.size == back.size == 16
    np.testing.assert_allclose(there * back, np.full(16, 0.5), rtol=0, atol=1e-15)


@pytest.mark.parametrize("is_inverse", [False, True])
def test_ends_of_a_spectrum_have_no_table(is_inverse: bool) -> None:
    for n, tables in ((2, 0), (64, 1)):
        c = _context()
        mix(c, c.new(n), c.new(n), 3, n, is_inverse=is_inverse)
        row = _only(c)
        assert row.work_items == 3
        assert len(row.reads) == 1 + tables


def test_rows_are_copied_and_completed_in_parts() -> None:
    c = _context()
    copy_rows(c, c.new(2 * LONG), c.new(2 * LONG), 2, LONG, LONG)
    assert _only(c).work_items == 2 * 3
    c = _context()
    complete(c, c.new(LONG), c.new(LONG), 2, LONG + 1)
    # One half is read.
    assert _only(c).work_items == 2 * -(-(LONG // 2 + 1) // TUNED.item_elements)


def test_what_is_cleared_keeps_the_elements_before_it() -> None:
    c = _context()
    target = c.new(2 * LONG)
    clear_ends(c, target, 2, LONG - 10, LONG)
    row = _only(c)
    assert (row.work_items, row.reads, row.updates) == (2, (), (target.value,))
