"""Unrolling of the innermost dimension: by the period of its index tests, or a few reductions.

The remainder of an index decides whether an element of a dilated array is an operand's or a padding
value. If one iteration of the innermost loop computes a whole period of elements, each of them has
a test with a constant outcome, and no index is divided.

Reductions of two or three neighbours, as of coordinates over points, are one loop with an
accumulator for each. A loop for each would load every second or third element.
"""

from collections.abc import Sequence

from xla_server.codegen.schedules.builders.collapse import Make
from xla_server.codegen.schedules.builders.stored_nodes import all_nodes
from xla_server.codegen.schedules.reductions.reduction_groups import (
    MIN_COLUMNS,
    is_free,
    reads_along,
    reductions_of,
)
from xla_server.codegen.trace.graph import Apply, Position, ReductionResult, Store
from xla_server.codegen.trace.tracer import Index
from xla_server.ir.analysis.affine import Modulus, Variable, variable
from xla_server.target.loop_tuning import LoopNests


def interleaved(
    dimensions: Sequence[int], make: Make, tuned: LoopNests
) -> tuple[Sequence[int], Make]:
    """Return dimensions and stores, the last dimension unrolled by its period if it has one."""
    if not dimensions or dimensions[-1] < tuned.min_interleaved_elements:
        return dimensions, make
    steps, sizes, stores = 1, dimensions, make
    while steps <= tuned.max_interleaved:
        loops = [Variable(size, "i") for size in sizes]
        period = _period(stores(tuple(map(variable, loops))), loops[-1])
        if period == 1:
            return sizes, stores
        steps *= period
        if dimensions[-1] % steps:
            break
        sizes = (*dimensions[:-1], dimensions[-1] // steps)
        stores = _side_by_side(make, steps)
    return dimensions, make


def neighbouring_reductions(
    dimensions: Sequence[int], make: Make, loops: Sequence[Variable], stores: Sequence[Store]
) -> tuple[Sequence[int], Make] | None:
    """Return dimensions and stores with a short last dimension side by side in each iteration.

    `loops` and `stores` are the collapsed nest. The result is None unless all reductions are in
    free order, one for each of the neighbours, which they read. Larger dimensions are whole vectors
    (`columns.py`).
    """
    if len(loops) < 2 or not 1 < dimensions[-1] == loops[-1].size < MIN_COLUMNS:
        return None
    last, reductions = loops[-1], reductions_of(stores)
    are_free = all(is_free(each) and last in each.variables for each in reductions)
    is_stored = all(store.offset.coefficient(last) == 1 for store in stores)
    if not (are_free and is_stored and reads_along(last, reductions, stores)):
        return None
    return (*dimensions[:-1], 1), _side_by_side(make, last.size)


def _side_by_side(make: Make, steps: int) -> Make:
    """Return a maker of the stores of `steps` adjacent elements."""

    def stores(index: Index) -> Sequence[Store]:
        *outer, last = index
        return [store for step in range(steps) for store in make((*outer, last * steps + step))]

    return stores


def _period(stores: Sequence[Store], loop: Variable) -> int:
    """Return the period, in iterations, of tests of indices along `loop`; 1 if there is none."""
    nodes = all_nodes(stores)
    if any(isinstance(node, ReductionResult) for node in nodes):
        return 1
    tested = [
        operand.index
        for node in nodes
        if isinstance(node, Apply) and node.function in ("lt", "ge")
        for operand in node.operands
        if isinstance(operand, Position)
    ]
    remainders = [atom for index in tested for atom, _ in index.terms if isinstance(atom, Modulus)]
    of_loop = (rest for rest in remainders if any(a is loop for a, _ in rest.operand.terms))
    return max((rest.divisor for rest in of_loop), default=1)
