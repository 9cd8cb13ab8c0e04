"""Transforms of lines: in one kernel, cut in two, or as a convolution."""

import pytest

from tests.processors import tuned
from tests.unit.codegen.lower.lowered import AVX2
from xla_contract.types.element_type import ElementType
from xla_server.buffers.code import KernelThunk
from xla_server.codegen.lower.fourier.fft_context import Array, Lines
from xla_server.codegen.lower.fourier.fft_kernels import Options
from xla_server.codegen.lower.fourier.fft_lines import LineTransforms
from xla_server.codegen.lower.lowering import Lowering
from xla_server.target.target import Target


def _transformed(
    lines: Lines, limit: int = 0, target: Target = AVX2
) -> tuple[list[KernelThunk], Array, Array]:
    c = LineTransforms(Lowering({}, target), "r", ElementType.F32)
    source = c.new(lines.outer * lines.n * lines.inner)
    result = c.new(lines.outer * (limit or lines.n) * lines.inner)
    c.transform(source, result, lines, Options(limit=limit))
    thunks = [thunk for thunk in c.lowering.thunks if isinstance(thunk, KernelThunk)]
    assert len(thunks) == len(c.lowering.thunks)
    assert source.value in (*thunks[0].reads, *thunks[0].updates)
    assert thunks[-1].writes == (result.value,)
    return thunks, source, result


def test_short_lines_are_one_kernel() -> None:
    (row,), _, _ = _transformed(Lines(64, 256, 1))
    assert row.work_items == 64 // 8


def test_a_long_line_is_cut_into_lines_across_each_other() -> None:
    (first, then), source, target = _transformed(Lines(1, 1 << 16, 1))
    (middle,) = first.writes
    assert middle not in (source.value, target.value)
    assert then.reads[0] is middle
    assert middle.shape.element_count == 1 << 16


def test_both_kernels_of_many_long_lines_are_one_over_memory_on_the_stack() -> None:
    least = AVX2.tuning.fourier.min_fused_lines
    assert len(_transformed(Lines(least - 1, 1 << 14, 1))[0]) == 2
    (row,), _, _ = _transformed(Lines(least, 1 << 14, 1))
    assert row.work_items == least
    # Not where a line is larger than a core's cache.
    assert len(_transformed(Lines(least, 1 << 17, 1))[0]) == 2


def test_a_factor_too_long_for_a_block_is_transformed_and_turned() -> None:
    small = tuned(AVX2, "fourier", max_block_elements=16)
    rows, _, _ = _transformed(Lines(1, 1 << 10, 1), target=small)
    # Lines of 16 elements, lines of 64 across them, which are cut themselves, and a copy in order.
    assert len(rows) == 3


def test_a_large_prime_is_a_convolution_of_a_longer_length() -> None:
    rows, _, target = _transformed(Lines(1, 10007, 1))
    (padded,) = rows[0].writes
    assert padded.shape.element_count >= 2 * 10007 - 1
    # The padding is filled with zeros.
    assert rows[1].updates == (padded,)
    assert target.value.shape.element_count == 10007


def test_neighbours_of_lines_of_a_large_prime_are_brought_together_and_back() -> None:
    rows, _, target = _transformed(Lines(1, 10007, 2))
    assert len(rows) == len(_transformed(Lines(2, 10007, 1))[0]) + 2
    assert rows[-1].writes == (target.value,)


@pytest.mark.parametrize("lines", [Lines(64, 256, 1), Lines(1, 1 << 16, 1), Lines(1, 10007, 1)])
def test_a_limit_takes_no_kernel_more(lines: Lines) -> None:
    limit = lines.n // 2 + 1
    rows, _, target = _transformed(lines, limit)
    assert target.value.shape.element_count == lines.outer * limit
    assert len(rows) == len(_transformed(lines)[0])
