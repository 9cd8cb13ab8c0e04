"""The schedule of few long columns on a GPU: a block reduces a tile of columns, in parts.

A warp loads 32 neighbours of each row. Columns of the results are traversed in the same parts, so
that a softmax or norm over a leading dimension is one kernel. With many columns, one thread for
each keeps a GPU busy. Semantics: XLA's GPU backend, its column reduction emitter.
"""

from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.gpu.schedules.groups import GroupBuilder, Reduced, power_above
from xla_server.codegen.schedules.builders.loop_builder import Nest
from xla_server.codegen.schedules.builders.stored_nodes import all_nodes
from xla_server.codegen.schedules.reductions.reduction_groups import reductions_of
from xla_server.codegen.trace.graph import Load
from xla_server.target.gpu.properties import BLOCK_THREADS, WARP

_ELEMENTS = 16
"""Elements of a column per part, up to the largest number of parts."""

_MIN_LENGTH = 64
_MANY = 1 << 16
"""Shortest column that is split into parts, and the number of columns from which none is."""


def column_grid(nest: Nest, largest: int) -> GridKernel | None:
    """Return the kernel of few long columns, or of columns that results have; None for others.

    `largest` is the number of elements of the largest array that the kernel has an index of.
    """
    found = Reduced.of(nest)
    if found is None or not found.outer or found.outer[-1] is not nest.loops[-1]:
        return None
    last = nest.loops[-1]
    loads = [node for node in all_nodes(nest.stores) if isinstance(node, Load)]
    are_neighbours = any(term == (last, 1) for load in loads for term in load.offset.terms)
    if not are_neighbours or any(last not in r.variables for r in reductions_of(nest.stores)):
        return None
    is_long = found.longest >= _MIN_LENGTH and found.results < _MANY
    if found.row is None and not is_long:
        return None
    columns = min(WARP, power_above(last.size))
    parts = min(BLOCK_THREADS // columns, power_above(-(-found.longest // _ELEMENTS)))
    # A group has at least two parts, and fills a warp.
    return GroupBuilder(nest, found, max(parts, 2, WARP // columns), columns).grid(largest)
