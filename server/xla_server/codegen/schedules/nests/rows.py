"""The schedule of most kernels: a parallel loop over rows, and serial loops over their elements.

The parallel loop runs over the product of all dimensions but the innermost.
"""

import math

from xla_server.codegen.kernel_ir.builder import Body
from xla_server.codegen.schedules.builders.launches.scheduled import ScheduledKernel
from xla_server.codegen.schedules.builders.launches.work_items import inner_loops
from xla_server.codegen.schedules.builders.loop_builder import (
    LoopBuilder,
    Nest,
    close,
    polling_nest_if_long,
)


def row_kernel(nest: Nest) -> ScheduledKernel:
    """Return the kernel of any nest."""
    return polling_nest_if_long(nest, lambda nest: _RowBuilder(nest).built())


class _RowBuilder(LoopBuilder):
    """Builds one work item for each row."""

    _calls_functions = True

    def built(self) -> ScheduledKernel:
        """Return the kernel."""
        loops = self._nest.loops
        inner = inner_loops(loops, self._nest.stores, self._tuned)
        outer = loops[: len(loops) - len(inner)]
        self._allocate_rows()
        items = math.prod(loop.size for loop in outer)
        body, axis = Body(self._top), self._axis("t")
        self._open_outer(outer, axis, body)
        opened = self._open_loops(inner, body)
        self._store(self._nest.stores, body)
        close(opened)
        # A single item needs no loop, which would cost a tenth of compiling it.
        self._close_part(body, axis if items > 1 else None, items)
        return self._scheduled()
