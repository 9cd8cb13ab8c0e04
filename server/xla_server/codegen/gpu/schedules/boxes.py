"""The schedule of a concatenate's operands on a GPU: each has threads of its own in one launch.

A thread tests its number for each operand; its elements need no tests.
"""

import dataclasses
from collections.abc import Sequence

from xla_server.codegen.gpu.grid import GridKernel, index_bits
from xla_server.codegen.gpu.schedules.threads import ReducingThreads
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.schedules.builders.loop_builder import Nest
from xla_server.codegen.schedules.reductions.reduction_groups import reductions_of
from xla_server.target.gpu.properties import MAX_RUN


def box_kernel(nests: Sequence[Nest], largest: int) -> GridKernel:
    """Return the kernel of several nests that store to boxes of one result.

    They share one list of origins. `largest` is the number of elements of the largest array that
    the kernel has an index of.
    """
    return GridKernel(_Boxes(nests).built(), index_bits=index_bits(largest))


class _Boxes(ReducingThreads):
    """Builds the work items of one nest after those of the other."""

    def __init__(self, nests: Sequence[Nest]) -> None:
        stores = tuple(store for nest in nests for store in nest.stores)
        super().__init__(dataclasses.replace(nests[0], loops=(), stores=stores))
        self._nests = nests

    def built(self) -> Kernel:
        items = 0
        for nest in self._nests:
            self._nest = nest
            self._max_run = 1 if reductions_of(nest.stores) else MAX_RUN
            items += self._build_part(items)
        return self._kernel()
