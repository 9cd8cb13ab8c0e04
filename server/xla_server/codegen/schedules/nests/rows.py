"""The schedule of most kernels: a parallel loop over rows, and serial loops over their elements.

The parallel loop runs over the product of all dimensions but the innermost.
"""

import math
from collections.abc import Sequence

from xla_server.codegen.kernel_ir.builder import Body
from xla_server.codegen.kernel_ir.unrolling import MAX_COPIES
from xla_server.codegen.schedules.builders.copies import CopiedRun, InnerLoops
from xla_server.codegen.schedules.builders.launches.scheduled import ScheduledKernel
from xla_server.codegen.schedules.builders.launches.work_items import inner_loops
from xla_server.codegen.schedules.builders.loop_builder import (
    LoopBuilder,
    Nest,
    close,
    polling_nest_if_long,
)
from xla_server.ir.analysis.affine import Variable


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
        copy = self._short_copy(inner)
        opened = self._open_loops(inner[:-1] if copy else inner, body)
        if copy:
            (opened[-1] if opened else body).add(self._copying(copy))
        else:
            self._store(self._nest.stores, body)
        close(opened)
        # A single item needs no loop, which would cost a tenth of compiling it.
        self._close_part(body, axis if items > 1 else None, items)
        return self._scheduled()

    def _short_copy(self, inner: Sequence[Variable]) -> CopiedRun | None:
        """Return the copy that the innermost of several loops makes, if it is short; else None.

        LLVM would vectorise the first loop around it that is not unrolled, and load or store each
        element of a vector by itself. If runs are close it does so by shuffles, which take less
        time than copies inside of a work item, or for few elements.
        """
        loops, tuned = self._nest.loops, self._tuned
        if len(loops) < 2 or self._nest.target.machine.gpu is not None:
            return None
        copy = CopiedRun.of(InnerLoops(tuple(inner[-1:]), self._nest.stores))
        if copy is None or copy.byte_size > tuned.max_copied_run or not self._is_copied(copy):
            return None
        offsets = copy.load.offset, copy.store.offset
        rest = range(len(loops) - 1, 0, -1)
        long = (n for n in rest if math.prod(loop.size for loop in loops[n - 1 :]) > MAX_COPIES)
        around = loops[next(long, 1) - 1]
        stride = max(abs(offset.coefficient(around)) for offset in offsets)
        is_near = stride <= tuned.max_shuffled_stride
        is_shuffled = is_near and (around in inner or copy.count <= tuned.max_shuffled_run)
        return None if is_shuffled else copy
