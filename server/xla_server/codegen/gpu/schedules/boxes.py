"""The schedule of a concatenate's operands on a GPU: each has threads of its own in one launch.

A thread tests its number for each operand; its elements need no tests. Narrow operands share
threads, each of which stores all of their elements in some rows.
"""

import dataclasses
import math
from collections.abc import Sequence

from xla_server.codegen.gpu.grid import GridKernel, index_bits
from xla_server.codegen.gpu.schedules.threads import ReducingThreads
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.schedules.builders.loop_builder import Nest
from xla_server.codegen.schedules.reductions.reduction_groups import reductions_of
from xla_server.codegen.trace.graph import Store
from xla_server.target.gpu.properties import ACCESS_BYTES, MAX_RUN, MAX_THREAD_VALUES


def box_kernel(nests: Sequence[Nest], largest: int) -> GridKernel:
    """Return the kernel of several nests that store to boxes of one result.

    They share one list of origins. `largest` is the number of elements of the largest array that
    the kernel has an index of.
    """
    return GridKernel(_Boxes(nests).built(), index_bits=index_bits(largest))


class _Boxes(ReducingThreads):
    """Builds the work items of one nest after those of the other.

    A nest has a store for each element of a row.
    """

    def __init__(self, nests: Sequence[Nest]) -> None:
        stores = tuple(store for nest in nests for store in nest.stores)
        super().__init__(dataclasses.replace(nests[0], loops=(), stores=stores))
        self._nests = nests

    def built(self) -> Kernel:
        items = 0
        for nest in self._nests:
            self._nest = nest
            self._max_run = 1 if reductions_of(nest.stores) else _rows_of(nest.stores)
            items += self._build_part(items)
        return self._kernel()


def _rows_of(stores: Sequence[Store]) -> int:
    """Return the rows of a thread: the fewest that widest accesses fill, with few values."""
    row_bytes = len(stores) * Type(stores[0].kernel_type.storage).byte_size
    most = max(1, MAX_THREAD_VALUES // len(stores))
    filled = ACCESS_BYTES // math.gcd(ACCESS_BYTES, row_bytes)
    return min(filled, MAX_RUN, 1 << most.bit_length() - 1)
