"""Loops of elements and of reductions."""

import math

import numpy as np
import pytest

from tests.example_platform.walker import run
from tests.processors import TARGET
from tests.unit.codegen.schedules.graphs import function, load, row, store, sum_of
from xla_server.codegen.kernel_ir.analysis.verify import verify
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Accumulate, For, Order, Set
from xla_server.codegen.kernel_ir.walk import walk
from xla_server.codegen.schedules.builders.loop_builder import Nest
from xla_server.codegen.schedules.nests.rows import row_kernel
from xla_server.codegen.trace.graph import Accumulator, Immediate, Node, Reduction, ReductionResult
from xla_server.ir.analysis.affine import Affine, Variable, variable

ROWS = Variable(5, "i")


def _kernel(value: Node) -> Kernel:
    kernel = row_kernel(Nest((ROWS,), (store(variable(ROWS), value),), TARGET)).kernel
    verify(kernel)
    return kernel


def _results(kernel: Kernel, *elements: np.ndarray) -> np.ndarray:
    result = np.zeros(ROWS.size, np.float32)
    buffers = [each.astype(np.float32).ravel() for each in elements]
    order = [buffers[0], result, *buffers[1:]]
    run(kernel, [each.view(np.uint8) for each in order], 0, kernel.items)
    return result


@pytest.mark.parametrize("length", [1, 2, 31, 64, 65, 1000, 5000])
def test_runs_of_any_length_have_each_element_once(length: int) -> None:
    loop = Variable(length, "k")
    kernel = _kernel(sum_of(load(row(ROWS, loop), ROWS.size * length), loop))
    chance = np.random.default_rng(length)
    elements = chance.integers(-50, 50, (ROWS.size, length))
    np.testing.assert_array_equal(_results(kernel, elements), elements.sum(1))


def test_long_sums_are_sums_of_runs_of_a_bounded_length() -> None:
    lengths = TARGET.tuning.free_sums
    for length in (lengths.run_elements, 9 * lengths.run_elements + 3):
        loop = Variable(length, "k")
        kernel = _kernel(sum_of(load(row(ROWS, loop), ROWS.size * length), loop))
        runs, joins = (
            [each for each in _accumulations(kernel) if each[0].order is order]
            for order in (Order.ANY, Order.SEQUENTIAL)
        )
        assert len(runs) == 1
        assert bool(joins) == (length > lengths.run_elements)
        *_, innermost = runs[0][1]
        assert innermost.iterations <= max(lengths.run_elements, lengths.long_run_elements)


def _accumulations(kernel: Kernel) -> list[tuple[Accumulate, list[For]]]:
    return [
        (each, [loop for loop in path if isinstance(loop, For)])
        for each, path in walk(kernel.body)
        if isinstance(each, Accumulate)
    ]


def test_a_reduction_with_an_order_changes_its_cells_after_all_are_combined() -> None:
    loop = Variable(40, "k")
    first, second = (Accumulator("f32", (loop,)) for _ in range(2))
    element = load(row(ROWS, loop), 200)
    # Each becomes what depends on both as they were.
    combined = function("sub", second, element), function("add", first, element)
    initial = Immediate.of("f32", 0), Immediate.of("f32", 0)
    reduction = Reduction((loop,), initial, (first, second), combined)
    kernel = _kernel(ReductionResult(reduction, 0))
    changes = [each for each, _ in walk(kernel.body) if isinstance(each, Set)]
    assert len(changes) == 2
    elements = np.random.default_rng(1).integers(-50, 50, (ROWS.size, 40))
    expected = np.zeros((2, ROWS.size))
    for column in elements.T:
        expected = np.stack([expected[1] - column, expected[0] + column])
    np.testing.assert_array_equal(_results(kernel, elements), expected[0])


def test_a_sum_of_sums_is_one_loop_inside_of_another() -> None:
    outer, inner = Variable(6, "k"), Variable(7, "k")
    nested = sum_of(sum_of(load(row(ROWS, outer, inner), 210), inner), outer)
    kernel = _kernel(nested)
    depths = sorted(len(loops) for _, loops in _accumulations(kernel))
    assert depths == [1, 2]
    elements = np.arange(math.prod((ROWS.size, 6, 7))).reshape(ROWS.size, -1)
    np.testing.assert_array_equal(_results(kernel, elements), elements.sum(1))


def test_sums_of_one_length_share_a_loop() -> None:
    one, other = Variable(40, "k"), Variable(40, "k")
    both = function(
        "add",
        sum_of(load(row(ROWS, one), 200), one),
        sum_of(load(row(ROWS, other) + Affine(0), 200, 2), other),
    )
    kernel = _kernel(both)
    (first, around), (second, around_second) = _accumulations(kernel)
    assert first.cell is not second.cell
    assert around == around_second
