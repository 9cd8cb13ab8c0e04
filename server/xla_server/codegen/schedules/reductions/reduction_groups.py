"""Groups of reductions that share a loop: of equal length and independent of each other."""

import math
from collections.abc import Sequence

from xla_server.codegen.schedules.reductions.sum_levels import RUN
from xla_server.codegen.schedules.reductions.vector_reductions import vector_reduction
from xla_server.codegen.trace import graph
from xla_server.ir.analysis.affine import Variable
from xla_server.ir.traversal import in_post_order

MIN_COLUMNS = 4
"""Fewest neighbouring results that are reduced as a row of accumulators; fewer are reduced in one
loop with an accumulator for each. It is not tuned, as the order of sums depends on it."""


def reduction_groups(stores: Sequence[graph.Store]) -> list[tuple[graph.Reduction, ...]]:
    """Return all reductions of a kernel in groups, in an order that respects dependencies.

    Only reductions that may be reassociated are grouped. Others are not vectorised, and would keep
    those that share their loop from being vectorised.
    """
    groups: dict[tuple[int, object], list[graph.Reduction]] = {}
    levels: dict[graph.Reduction, int] = {}
    for reduction in reductions_of(stores):
        level = levels[reduction] = 1 + max(
            (levels[other] for other in needed_reductions(reduction)), default=0
        )
        form: object = reduction
        if is_free(reduction):
            form = tuple(loop.size for loop in reduction.loops), reduction.variables
        groups.setdefault((level, form), []).append(reduction)
    return [tuple(group) for _, group in sorted(groups.items(), key=lambda item: item[0][0])]


def is_free(reduction: graph.Reduction) -> bool:
    """Return whether a reduction is reassociated: it may be, and it is long or has one loop.

    Extremes of floats always are, as their integer keys are faster even in sequence.
    """
    form = vector_reduction(reduction)
    if form is None:
        return False
    is_one_loop = len(reduction.loops) == 1
    return is_one_loop or form.has_keys or math.prod(loop.size for loop in reduction.loops) > RUN


def reads_along(
    loop: Variable, reductions: Sequence[graph.Reduction], stores: Sequence[graph.Store]
) -> bool:
    """Return whether more loads are contiguous along a loop around reductions than inside of them.

    Loads that vary with only one of the loops are left out: every schedule hoists them.
    """
    inside = {each for reduction in reductions for each in reduction.loops}
    innermost = [reduction.loops[-1] for reduction in reductions if reduction.loops]
    reads = [
        node
        for node in graph.reached(graph.roots_of(stores))
        if isinstance(node, graph.Load) and loop in node.variables and node.variables & inside
    ]
    along = sum(node.offset.coefficient(loop) == 1 for node in reads)
    return along > sum(
        any(node.offset.coefficient(each) == 1 for each in innermost) for node in reads
    )


def reductions_of(stores: Sequence[graph.Store]) -> list[graph.Reduction]:
    """Return every reduction, each after those whose results it reads."""
    roots = reversed(graph.roots_of(stores))
    nodes = in_post_order(roots, lambda node: reversed([*node.inputs()]))
    results = (node for node in nodes if isinstance(node, graph.ReductionResult))
    return list(dict.fromkeys(node.reduction for node in results))


def needed_reductions(reduction: graph.Reduction) -> set[graph.Reduction]:
    """Return the reductions whose results a reduction reads directly."""
    nodes = graph.reached([*reduction.initial, *reduction.combined], graph.own_inputs)
    return {node.reduction for node in nodes if isinstance(node, graph.ReductionResult)}
