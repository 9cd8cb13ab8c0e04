"""Groups of reductions that can share a loop: of equal lengths and mutually independent."""

import math
from collections.abc import Sequence

from xla_server.codegen.schedules.reductions.sum_levels import RUN
from xla_server.codegen.schedules.reductions.vector_reductions import vector_reduction
from xla_server.codegen.trace import graph
from xla_server.ir.traversal import in_post_order


def reduction_groups(stores: Sequence[graph.Store]) -> list[tuple[graph.Reduction, ...]]:
    """Return all reductions of a kernel in groups, in an order in which they can be executed.

    Only reductions of free order share loops: others are not vectorised, and would prevent it for
    those that they share a loop with.
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
    """Return whether elements may be combined in any order, as those of short reductions are.

    Keys of floats are combined faster, even one after the other.
    """
    form = vector_reduction(reduction)
    if form is None:
        return False
    is_one_loop = len(reduction.loops) == 1
    return is_one_loop or form.has_keys or math.prod(loop.size for loop in reduction.loops) > RUN


def reductions_of(stores: Sequence[graph.Store]) -> list[graph.Reduction]:
    """Return all reductions; each comes after those whose results it needs."""
    roots = reversed(graph.roots_of(stores))
    nodes = in_post_order(roots, lambda node: reversed([*node.inputs()]))
    results = (node for node in nodes if isinstance(node, graph.ReductionResult))
    return list(dict.fromkeys(node.reduction for node in results))


def needed_reductions(reduction: graph.Reduction) -> set[graph.Reduction]:
    """Return the reductions whose results a reduction reads directly."""
    nodes = graph.reached([*reduction.initial, *reduction.combined], graph.own_inputs)
    return {node.reduction for node in nodes if isinstance(node, graph.ReductionResult)}
