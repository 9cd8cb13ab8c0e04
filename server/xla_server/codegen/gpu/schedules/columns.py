"""The schedule of few long columns on a GPU: a block reduces a tile of columns, in parts.

A warp loads 32 neighbours of each row. Columns of the results are traversed in the same parts, so
that a softmax or norm over a leading dimension is one kernel. With many columns, one thread for
each keeps a GPU busy. Semantics: XLA's GPU backend, its column reduction emitter.
"""

from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.gpu.schedules.groups import (
    MAX_GROUP_THREADS,
    GroupBuilder,
    Reduced,
    power_above,
    steps_of,
)
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.schedules.builders.loop_builder import Nest
from xla_server.codegen.schedules.builders.stored_nodes import all_nodes
from xla_server.codegen.schedules.reductions.reduction_groups import reductions_of
from xla_server.codegen.trace.graph import Load
from xla_server.target.gpu.properties import FEW_BLOCKS, SECTOR_BYTES, WARP

_ELEMENTS = 16
"""Elements of a column per part, up to the largest number of parts."""


def column_grid(nest: Nest, largest: int) -> GridKernel | None:
    """Return the kernel of few long columns, or of columns that results have; None for others.

    A tile has fewer columns, and more parts, where most multiprocessors would have none.
    `largest` is the number of elements of the largest array that the kernel has an index of.
    """
    found = Reduced.of(nest)
    if found is None or not found.outer or found.outer[-1] is not nest.loops[-1]:
        return None
    last = nest.loops[-1]
    reductions = reductions_of(nest.stores)
    if not steps_of(nest, last) or any(last not in each.variables for each in reductions):
        return None
    if found.row is None and not found.is_long:
        return None
    columns = min(WARP, power_above(last.size))
    while columns > _fewest(nest) and found.results < columns * FEW_BLOCKS:
        columns //= 2
    parts = min(MAX_GROUP_THREADS // columns, power_above(-(-found.longest // _ELEMENTS)))
    # A group has at least two parts, and fills a warp.
    return GroupBuilder(nest, found, max(parts, 2, WARP // columns), columns).grid(largest)


def _fewest(nest: Nest) -> int:
    """Return the elements of a sector of memory, which is moved as a whole."""
    loads = [node for node in all_nodes(nest.stores) if isinstance(node, Load)]
    narrowest = min(Type(load.kernel_type.storage).byte_size for load in loads)
    return max(1, SECTOR_BYTES // narrowest)
