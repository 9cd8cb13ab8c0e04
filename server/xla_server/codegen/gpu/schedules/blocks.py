"""The schedule of long rows on a GPU: the threads of a block reduce a row, of any length.

Rows of up to 16 elements for each thread of a block, and of twice that, stay in registers between
the loops of softmax and norms; longer ones are read again, from the second-level cache where they
fit. A few rows of millions of elements are cut into rows of this schedule before.
"""

from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.gpu.schedules.groups import GroupBuilder, power_above
from xla_server.codegen.gpu.schedules.rows import rows_of
from xla_server.codegen.schedules.builders.loop_builder import Nest

_MIN_THREADS = 64
_MAX_THREADS = 512
"""Threads of a block: with more a thread would have less than 128 registers."""

_ELEMENTS = 16
"""Elements of a row for each thread, up to the most threads: four accesses of F32 at once."""


def block_grid(nest: Nest, largest: int) -> GridKernel | None:
    """Return the kernel of a nest whose reductions run over rows in memory; None for others.

    `largest` is the number of elements of the largest array that the kernel has an index of.
    """
    rows = rows_of(nest)
    if rows is None:
        return None
    threads = max(_MIN_THREADS, power_above(-(-rows.longest // _ELEMENTS)))
    return GroupBuilder(nest, rows, min(_MAX_THREADS, threads)).grid(largest)
