"""Lines of Fourier transforms and what each way costs, and where they are in memory."""

import math

import pytest

from tests.unit.codegen.lower.lowered import AVX2
from xla_contract.types.element_type import ElementType
from xla_server.codegen.lower.fourier.fft_context import Array, Context, Lines, Vectors
from xla_server.codegen.lower.lowering import Lowering

TO = Vectors(8, AVX2.tuning.fourier)


def test_a_cut_leaves_lines_of_the_other_factor() -> None:
    lines = Lines(3, 4096 * 16, 1)
    cost, g = lines.cut(TO)
    assert cost < lines.one_kernel_cost(TO) == math.inf
    assert lines.n % g == 0
    assert lines.rest(lines.n // g) == Lines(3 * (lines.n // g), g, 1)
    assert Lines(3, 10007, 1).cut(TO) == (math.inf, 0)


def test_only_lengths_with_large_factors_are_convolved() -> None:
    most = AVX2.tuning.fourier.max_cut_factor
    assert Lines(1, most * 4, 1).convolution_cost(TO) == math.inf
    assert Lines(1, 67 * 4, 1).convolution_cost(TO) < math.inf
    prime = Lines(1, 10007, 1)
    assert prime.cost(TO) == prime.convolution_cost(TO)


def test_many_short_lines_are_direct_and_a_long_one_is_not() -> None:
    assert Lines(64, 1024, 1).is_one_kernel(TO)
    assert not Lines(1, 1 << 16, 1).is_one_kernel(TO)
    # Another way that costs more beside is not cheaper.
    alone = Lines(1, 4096, 1)
    assert not alone.is_one_kernel(TO)
    assert alone.is_one_kernel(TO, math.inf)


@pytest.mark.parametrize(("inner", "is_narrow"), [(1, True), (3, True), (4, False), (8, False)])
def test_few_neighbours_leave_lanes_empty(inner: int, is_narrow: bool) -> None:
    assert Lines(5, 64, inner).is_narrow(TO) is is_narrow


@pytest.mark.parametrize(("kind", "width"), [(ElementType.F32, 4), (ElementType.F64, 8)])
def test_steps_are_given_in_elements_and_kept_in_bytes(kind: ElementType, width: int) -> None:
    context = Context(Lowering({}, AVX2), "r", kind)
    memory = context.new(30)
    assert memory.value.shape.element_type is kind.complex_of
    assert (memory.value.name, context.title()) == ("r.1", "r.2")
    side = context.layout(memory, (15,), 5, 1, (3, 10))
    assert side.width == 2 * width
    assert (side.steps, side.inner_step) == ((15 * 2 * width,), 5 * 2 * width)
    assert (side.element_step, side.split) == (2 * width, (3, 10 * 2 * width))
    assert context.layout(Array(memory.value, is_real=True), (), 5, 1).inner_step == 5 * width
    assert context.lanes == AVX2.machine.vector_bytes // width
