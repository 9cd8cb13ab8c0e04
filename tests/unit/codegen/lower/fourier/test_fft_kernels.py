"""Kernels over blocks of lines: how lines are loaded, and how outer dimensions join them."""

import pytest

from tests.unit.codegen.lower.lowered import AVX2
from xla_contract.types.element_type import ElementType
from xla_server.buffers.code import KernelThunk, Value
from xla_server.codegen.kernel_ir.builder import Body
from xla_server.codegen.lower.fourier.fft_context import Context
from xla_server.codegen.lower.fourier.fft_kernels import LineLayout, add_kernel
from xla_server.codegen.lower.lowering import Lowering

LANES = 8


def _side(inner_step: int, element_step: int, split: tuple[int, int] | None = None) -> LineLayout:
    value = Context(Lowering({}, AVX2), "r", ElementType.F32).new(8).value
    return LineLayout(value, 8, (), inner_step, element_step, split=split)


def test_lines_are_loaded_by_what_is_side_by_side_in_memory() -> None:
    assert _side(800, 8).form(LANES, 100) == "rows"
    assert _side(24, 8).form(LANES, 3) == "short_rows"
    assert _side(8, 80).form(LANES, 100) == "columns"
    assert _side(16, 80).form(LANES, 100) == "lines"
    assert _side(8, 80, (3, 240)).form(LANES, 100) == "lines"


def _added(outer: int, inner: int, n: int) -> KernelThunk:
    """Lower transforms of [outer, n, inner] by one kernel."""
    context = Context(Lowering({}, AVX2), "r", ElementType.F32)
    source, target = (context.new(outer * n * inner) for _ in range(2))
    one, other = (context.layout(array, (n * inner,), 1, inner) for array in (source, target))
    kernel = context.kernel((outer,), inner, one, other, (n, n, n))
    assert kernel.lanes == LANES
    kernel.add()
    (thunk,) = context.lowering.thunks
    assert isinstance(thunk, KernelThunk)
    assert (thunk.reads[0], thunk.writes) == (source.value, (target.value,))
    return thunk


@pytest.mark.parametrize(
    ("outer", "inner", "items"),
    [
        (20, 1, 3),  # Rows are lines of one dimension.
        (20, 3, 20),  # To fill lanes from other groups takes longer than it saves.
        (20, 8, 20),  # Neighbours fill whole vectors.
        (20, 15, 40),
        (1, 3, 1),
    ],
)
def test_a_work_item_has_as_many_lines_as_vectors_have_lanes(
    outer: int, inner: int, items: int
) -> None:
    row = _added(outer, inner, 16)
    assert row.work_items == items


def test_a_kernel_that_overwrites_its_operand_does_not_read_another() -> None:
    lowering = Lowering({}, AVX2)
    one, other = (Value(_side(8, 8).value.shape, name) for name in "ab")
    add_kernel(lowering, "k", Body(), [], one, other)
    add_kernel(lowering, "k", Body(), [], one, one)
    apart, in_place = lowering.thunks
    assert isinstance(apart, KernelThunk)
    assert isinstance(in_place, KernelThunk)
    assert (apart.reads, apart.writes, apart.updates) == ((one,), (other,), ())
    assert (in_place.reads, in_place.writes, in_place.updates) == ((), (one,), (one,))
    assert in_place.arguments == (one, one)
