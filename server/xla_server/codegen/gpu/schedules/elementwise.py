"""The elementwise schedule on a GPU: a thread computes a run of contiguous elements.

A run has as many elements of the widest array as the widest access moves, so that its loads and
stores become one access each. If only one large array is read, a thread has two such runs, half of
the array apart, and loads both before it waits.

Semantics: XLA's GPU backend, its loop emitter.
"""

import math

from xla_server.codegen.gpu.grid import GridKernel, index_bits
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Branch, Loop, positions
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.schedules.builders.loop_builder import LoopBuilder, Nest
from xla_server.codegen.schedules.builders.stored_nodes import all_nodes
from xla_server.codegen.schedules.reductions.reduction_groups import reductions_of
from xla_server.codegen.trace.graph import Load
from xla_server.ir.analysis.affine import Variable
from xla_server.target.gpu.properties import ACCESS_BYTES, BYTES_IN_FLIGHT, FULL_THREADS, MAX_RUN


def elementwise_grid(nest: Nest, largest: int) -> GridKernel | None:
    """Return the kernel of a nest without reductions; None for others.

    `largest` is the number of elements of the largest array that the kernel has an index of.
    """
    if reductions_of(nest.stores):
        return None
    return GridKernel(ThreadBuilder(nest).built(), index_bits=index_bits(largest))


class ThreadBuilder(LoopBuilder):
    """Builds one work item for each run of neighbouring elements, of `most` at most."""

    def __init__(self, nest: Nest, max_run: int = MAX_RUN) -> None:
        super().__init__(nest)
        self._max_run = max_run

    def built(self) -> Kernel:
        """Return the kernel."""
        self._build_part()
        return self._kernel()

    def _build_part(self, first: int = 0) -> int:
        """Build the parallel loop after `first` work items; return the number of its own."""
        *outer, last = self._nest.loops or (Variable(1, "i"),)
        run = self._run(last.size, is_alone=not outer)
        runs = -(-last.size // run)
        copies = 1 if outer or last.size % run else self._copies(runs, run)
        runs //= copies
        items = math.prod(loop.size for loop in outer) * runs
        body, axis = Body(self._top), self._axis("t") if items > 1 else None
        # Threads without a work item must not evaluate loop-invariant values.
        self._invariants = body
        number: ir.Expression = ir.Index(0)
        if axis is not None:
            number = body.let(self._names("t"), ir.Index(-first, ((axis, 1),))) if first else axis
        if outer:
            number = self._open_rows(outer, runs, number, body)
        whole_runs, rest = divmod(last.size, run)
        if copies > 1:
            with Loop(body, self._names("i"), copies, unrolled=True) as copy:
                self._elements(last, ((number, run), (copy.axis, runs * run)), run, copy)
        elif not rest or not whole_runs:
            # Values that do not depend on the element are computed outside of branches, once.
            self._elements(last, ((number, run),), rest or run, body)
        else:
            share = whole_runs / runs
            with Branch(body, ir.condition("lt", number, whole_runs), share) as branch:
                self._elements(last, ((number, run),), run, branch)
                self._elements(last, ((number, run),), rest, branch.orelse)
        self._close_part(body, axis, items, first)
        return items

    def _copies(self, runs: int, run: int) -> int:
        """Return the number of runs of a thread: more if one run loads few bytes."""
        if runs % 2 or runs // 2 < FULL_THREADS or 2 * run > self._max_run:
            return 1
        loads = [node for node in all_nodes(self._nest.stores) if isinstance(node, Load)]
        requested = sum(run * Type(node.kernel_type.storage).byte_size for node in loads)
        return 2 if 0 < 2 * requested <= BYTES_IN_FLIGHT else 1

    def _run(self, length: int, *, is_alone: bool) -> int:
        """Return the number of elements of a run: a power of two.

        A run may end early if there are no outer loops, and divides `length` otherwise.
        """
        kinds = [store.kernel_type for store in self._nest.stores]
        kinds += [
            node.kernel_type for node in all_nodes(self._nest.stores) if isinstance(node, Load)
        ]
        widest = max(Type(kind.storage).byte_size for kind in kinds)
        run = min(self._max_run, max(1, ACCESS_BYTES // widest))
        return run if is_alone else math.gcd(run, length)

    def _open_rows(
        self, outer: list[Variable], runs: int, item: ir.Expression, body: Body
    ) -> ir.Expression:
        """Bind the outer variables of a work item; return the number of its run in the row."""
        sizes = [*(loop.size for loop in outer), runs]
        *values, run = positions(body, self._names, item, sizes)
        for loop, value in zip(outer, values, strict=True):
            self._indices[loop], self._bodies[loop] = value, body
        return run

    def _elements(
        self,
        last: Variable,
        first: tuple[tuple[ir.Expression, int], ...],
        count: int,
        outside: Body,
    ) -> None:
        """Build `count` elements from the one on whose number is the sum of these terms."""
        known = dict(self._values), dict(self._stored)
        body = Loop(outside, self._names("i"), count, unrolled=True)
        self._indices[last] = body.let(self._names("i"), ir.Index(0, (*first, (body.axis, 1))))
        self._bodies[last] = body
        self._store(self._nest.stores, outside)
        body.close()
        # Values of one branch are not defined in the other.
        self._values, self._stored = known
