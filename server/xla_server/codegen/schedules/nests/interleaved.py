"""Unrolling of the innermost dimension: by the period of its index tests, or a few reductions.

The remainder of an index decides whether an element of a dilated array is an operand's or a padding
value. If one iteration of the innermost loop computes a whole period of elements, each of them has
a test with a constant outcome, and no index is divided.

Reductions of two or three neighbours, as of coordinates over points, are one loop with an
accumulator for each. A loop for each would load every second or third element.
"""

import dataclasses
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


@dataclasses.dataclass(frozen=True, slots=True)
class Interleaved:
    """The dimensions of a nest's iterations, and the function that makes the stores of one.

    If the period does not divide the last dimension, it `is_ragged`: its last iteration has fewer
    elements, and `make` leaves out the others for an index of that iteration alone.
    """

    dimensions: Sequence[int]
    make: Make
    is_ragged: bool = False


def interleaved(dimensions: Sequence[int], make: Make, tuned: LoopNests) -> Interleaved:
    """Return dimensions and stores, the last dimension unrolled by its period if it has one."""
    found = whole = Interleaved(dimensions, make)
    if not dimensions or dimensions[-1] < tuned.min_interleaved_elements:
        return whole
    steps, (*outer, last) = 1, dimensions
    while steps <= tuned.max_interleaved:
        loops = [Variable(size, "i") for size in found.dimensions]
        period = _period(found.make(tuple(map(variable, loops))), loops[-1])
        if period == 1:
            return found
        steps *= period
        stores = _side_by_side(make, steps, last)
        found = Interleaved((*outer, -(-last // steps)), stores, last % steps > 0)
    return whole


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
    return (*dimensions[:-1], 1), _side_by_side(make, last.size, last.size)


def _side_by_side(make: Make, steps: int, size: int) -> Make:
    """Return a maker of the stores of `steps` adjacent elements of `size`, or those left."""

    def stores(index: Index) -> Sequence[Store]:
        *outer, last = index
        elements = (last * steps + step for step in range(steps))
        return [store for each in elements if each.low < size for store in make((*outer, each))]

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
