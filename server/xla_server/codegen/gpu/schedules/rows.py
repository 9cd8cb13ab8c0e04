"""The schedules of rows on a GPU: lanes of a warp, or the threads of a block, reduce a row.

Softmax and norms are one kernel. Rows of up to 16 elements for each thread of a block, and of twice
that, stay in registers between their loops; longer ones are read again, from the second-level cache
where they fit. A few rows of millions of elements are cut into long rows before.
Semantics: XLA's GPU backend, its reduction emitter.
"""

from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.gpu.schedules.groups import (
    MAX_GROUP_THREADS,
    GroupBuilder,
    Reduced,
    power_above,
    run_of,
    steps_of,
)
from xla_server.codegen.schedules.builders.loop_builder import Nest
from xla_server.codegen.schedules.reductions.reduction_groups import reductions_of
from xla_server.target.gpu.properties import MAX_WARP_ROW, WARP

_MIN_THREADS = 64
"""Fewest threads of a block."""

_ELEMENTS = 16
"""Elements of a row for each thread, up to the most threads: four accesses of F32 at once."""


def row_grid(nest: Nest, largest: int) -> GridKernel | None:
    """Return the kernel of a nest whose reductions run over short rows in memory; None for others.

    A row has a lane for each access of the widest kind, rounded up to a power of two, and 32 at
    most: several rows share a warp where they are short, and rows of one access have a thread each.
    `largest` is the number of elements of the largest array that the kernel has an index of.
    """
    rows = rows_of(nest)
    if rows is None or rows.longest > MAX_WARP_ROW:
        return None
    runs = rows.longest // run_of(nest, rows.longest)
    return GroupBuilder(nest, rows, min(WARP, power_above(runs))).grid(largest)


def rows_of(nest: Nest) -> Reduced | None:
    """Return the loops of a nest whose reductions traverse neighbours; None for others.

    Elements that are apart are neighbours, too, if those of the next result are farther apart.
    """
    found = Reduced.of(nest)
    if found is None or found.row not in (None, *nest.loops[-1:]):
        return None
    near = min(steps_of(nest, found.outer[-1]), default=1) if found.outer else 1
    for reduction in reductions_of(nest.stores):
        # One that loads nothing is in any order.
        own = steps_of(nest, reduction.loops[-1])
        if reduction.variables and own and min(own) > near:
            return None
    return found


def block_grid(nest: Nest, largest: int) -> GridKernel | None:
    """Return the kernel of a nest whose reductions run over rows of any length; None for others.

    `largest` is the number of elements of the largest array that the kernel has an index of.
    """
    rows = rows_of(nest)
    if rows is None:
        return None
    threads = max(_MIN_THREADS, power_above(-(-rows.longest // _ELEMENTS)))
    return GroupBuilder(nest, rows, min(MAX_GROUP_THREADS, threads)).grid(largest)
