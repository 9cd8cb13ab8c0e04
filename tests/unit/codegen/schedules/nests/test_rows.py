"""Kernels of rows: work items, and the loops inside of them."""

import dataclasses

import pytest

from tests.processors import TARGET
from tests.unit.codegen.schedules.graphs import BF16, function, load, row, store
from xla_server.codegen.kernel_ir.analysis.verify import verify
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Call, For, Stop
from xla_server.codegen.kernel_ir.walk import walk
from xla_server.codegen.schedules.builders.loop_builder import Nest
from xla_server.codegen.schedules.nests.rows import row_kernel
from xla_server.codegen.trace.graph import Store
from xla_server.ir.analysis.affine import Variable, variable
from xla_server.target.machine import Machine
from xla_server.target.target import Target


def _kernel(*sizes: int, cancellation: int | None = None) -> Kernel:
    loops = tuple(Variable(size, "i") for size in sizes)
    value = function("exp_f32", load(row(*loops)))
    nest = Nest(loops, (store(row(*loops), value),), TARGET, cancellation)
    kernel = row_kernel(nest).kernel
    verify(kernel)
    return kernel


def _loops_of(kernel: Kernel) -> list[For]:
    return [each for each, _ in walk(kernel.body) if isinstance(each, For)]


def test_outer_dimensions_are_work_items_and_the_last_one_a_loop() -> None:
    kernel = _kernel(7, 30, 400)
    assert kernel.items == 7 * 30
    assert [loop.iterations for loop in _loops_of(kernel)] == [400]


def test_elements_of_one_dimension_are_work_items() -> None:
    kernel = _kernel(300)
    assert (kernel.items, _loops_of(kernel)) == (300, [])


def test_a_scalar_is_a_work_item_without_loops() -> None:
    kernel = _kernel()
    (part,) = kernel.parts
    assert (part.axis, part.items, _loops_of(kernel)) == (None, 1, [])


def test_a_long_work_item_tests_the_cancellation_flag() -> None:
    def is_tested(kernel: Kernel) -> bool:
        return any(isinstance(each, Stop) for each, _ in walk(kernel.body))

    assert is_tested(_kernel(3, 1 << 24, cancellation=2))
    assert not is_tested(_kernel(3, 1 << 24))
    assert not is_tested(_kernel(3, 300, cancellation=2))


def _copy(rows: int, count: int, stride: int, middle: int = 1) -> tuple[list[Variable], Store]:
    """Loops over rows of dense runs of `count` elements, read `stride` elements apart."""
    loops = [Variable(size, "i") for size in (rows, middle, count)]
    outer, repeat, inner = map(variable, loops)
    loops = [loop for loop in loops if loop.size > 1]
    first = max(0, -stride) * (rows - 1)
    read = load(outer * stride + inner + first, 1 << 20)
    return loops, store((outer * middle + repeat) * count + inner, read)


def _copies(loops: list[Variable], stored: Store, target: Target = TARGET) -> list[Call]:
    """The copies of bytes in the kernel of a nest."""
    kernel = row_kernel(Nest(tuple(loops), (stored,), target)).kernel
    verify(kernel)
    return [each for each, _ in walk(kernel.body) if isinstance(each, Call)]


@pytest.mark.parametrize(
    ("rows", "count", "stride", "middle"),
    [
        *((1000, 5, 90, 1), (1000, 16, 90, 1), (1000, 5, -90, 1), (1000, 5, 5, 7)),
        (1000, 5, 8, 1),
    ],
)
def test_short_runs_are_copied(rows: int, count: int, stride: int, middle: int) -> None:
    assert len(_copies(*_copy(rows, count, stride, middle))) == 1


@pytest.mark.parametrize(("count", "stride", "middle"), [(17, 90, 1), (5, 90, 13), (3, 4, 60)])
def test_long_runs_and_those_side_by_side_in_a_work_item_are_loops(
    count: int, stride: int, middle: int
) -> None:
    assert not _copies(*_copy(1000, count, stride, middle))


@pytest.mark.parametrize(("machine", "copies"), [(Machine.avx2(), 0), (Machine.avx512(), 1)])
def test_short_runs_side_by_side_are_copied_instead_of_masks(machine: Machine, copies: int) -> None:
    assert len(_copies(*_copy(1000, 3, 4), Target.of(machine))) == copies


def test_short_runs_of_a_long_work_item_are_copied_between_tests_of_the_flag() -> None:
    loops = [Variable(size, "i") for size in (1000, 1 << 22, 5)]
    read = variable(loops[1]) * 20 + variable(loops[2])
    stored = store(row(*loops), load(read, 1 << 27))
    kernel = row_kernel(Nest(tuple(loops), (stored,), TARGET, cancellation=2)).kernel
    verify(kernel)
    found = [each for each, _ in walk(kernel.body)]
    assert any(isinstance(each, Stop) for each in found)
    assert any(isinstance(each, Call) for each in found)


def test_runs_of_other_types_or_of_the_result_are_loops() -> None:
    loops, stored = _copy(1000, 5, 90)
    assert not _copies(loops, dataclasses.replace(stored, kernel_type=BF16))
    assert not _copies(loops, dataclasses.replace(stored, argument=0))


def test_runs_are_loops_on_a_gpu() -> None:
    loops, stored = _copy(1000, 5, 90)
    assert not _copies(loops, stored, Target.of(Machine.cuda("sm_90")))
