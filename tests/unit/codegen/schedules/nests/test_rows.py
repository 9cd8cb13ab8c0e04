"""Kernels of rows: work items, and the loops inside of them."""

from tests.processors import TARGET
from tests.unit.codegen.schedules.graphs import function, load, row, store
from xla_server.codegen.kernel_ir.analysis.verify import verify
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import For, Stop
from xla_server.codegen.kernel_ir.walk import walk
from xla_server.codegen.schedules.builders.loop_builder import Nest
from xla_server.codegen.schedules.nests.rows import row_kernel
from xla_server.ir.analysis.affine import Variable


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
