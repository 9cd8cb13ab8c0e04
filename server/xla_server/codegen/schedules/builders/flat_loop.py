"""One loop over all elements of a result whose rows are shorter than a vector.

A vector evaluation of a costly function takes the same time for two elements as for sixteen. One
loop over all elements fills every vector, whatever the dimensions; broadcast or transposed operands
are gathered at quotients and remainders of the linear index.
"""

import math
from collections.abc import Sequence

from xla_server.codegen.kernel_ir.analysis.counts import cost_of
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.kernel_ir.unrolling import MIN_LEFT
from xla_server.codegen.schedules.builders.collapse import Make
from xla_server.codegen.schedules.builders.stored_nodes import all_nodes
from xla_server.codegen.trace.graph import Apply, ReductionResult, Store
from xla_server.codegen.trace.merging import indices_of
from xla_server.ir.analysis.affine import Variable, multi_index, variable
from xla_server.ops.elementwise.elementwise_op import CostClass
from xla_server.target.loop_tuning import MAX_UNROLLED_ITERATIONS
from xla_server.target.target import Target


def flat_loop(
    dimensions: Sequence[int],
    make: Make,
    loops: Sequence[Variable],
    stores: Sequence[Store],
    target: Target,
) -> tuple[Variable, tuple[Store, ...]] | None:
    """Return the loop over all elements and its stores; None if loops over rows are faster.

    `loops` and `stores` are the collapsed nest of the same `dimensions` and `make`.
    """
    has_narrow_indices = math.prod(dimensions) < 1 << 31
    if len(loops) < 2 or target.machine.gpu is not None or not has_narrow_indices:
        return None
    nodes = all_nodes(stores)
    functions = [
        node
        for node in nodes
        if isinstance(node, Apply) and cost_of(node.function) >= CostClass.TRANSCENDENTAL
    ]
    if not functions or any(isinstance(node, ReductionResult) for node in nodes):
        return None
    lanes = target.machine.vector_bytes // max(map(_component_bytes, functions))
    loop = Variable(math.prod(dimensions), "i")
    flat = tuple(make(multi_index(variable(loop), dimensions)))
    # An index without quotients and remainders needs no gather.
    gathered = sum(
        any(not isinstance(atom, Variable) for atom, _ in i.terms) for i in indices_of(flat)
    )
    once = sum(cost_of(node.function) for node in functions if loops[-1] not in node.variables)
    each = sum(cost_of(node.function) for node in functions if loops[-1] in node.variables)
    by_rows = once + each * _vectors_of_row(loops, stores, lanes, target)
    together = once + each + gathered * target.tuning.loops.gather_work
    return (loop, flat) if together * loops[-1].size < by_rows * lanes else None


def _vectors_of_row(
    loops: Sequence[Variable], stores: Sequence[Store], lanes: int, target: Target
) -> float:
    """Return the mean number of vector evaluations per row.

    If the loop over a row is unrolled, LLVM vectorises the loop over rows instead, provided that
    it is long enough. Otherwise the remainder of a row takes one masked vector, or without masks
    one evaluation per element, each as slow as a whole vector.
    """
    row, rows = loops[-1].size, loops[-2].size
    if _is_copied(loops[-1], stores):
        if len(loops) == 2:
            return row / lanes
        is_long = rows >= target.tuning.short_loops.vector_elements
        return row * (rows // lanes + rows % lanes if is_long else rows) / rows
    if target.machine.has_masks:
        return math.ceil(row / lanes)
    filled = min(lanes, 1 << row.bit_length() - 1)
    return row // filled + row % filled


def _is_copied(loop: Variable, stores: Sequence[Store]) -> bool:
    """Return whether the innermost loop is unrolled completely (kernel_ir/unrolling.py)."""
    factors = {by for index in indices_of(stores) for atom, by in index.terms if atom is loop}
    is_short = loop.size <= MAX_UNROLLED_ITERATIONS
    return loop.size < MIN_LEFT or (is_short and factors != {1})


def _component_bytes(node: Apply) -> int:
    """Return the bytes per lane; complex numbers take two vectors, of real and imaginary parts."""
    size = Type(node.type).byte_size
    return size // 2 if node.type in (Type.C64, Type.C128) else size
