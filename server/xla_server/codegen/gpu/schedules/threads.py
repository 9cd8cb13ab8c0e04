"""The schedule of threads on a GPU, which fits every nest: a thread computes one result.

It executes the loops of reductions itself, nested ones too. Elements whose order is free are
combined in runs, and the results of runs and of inner loops in turn, so that errors grow with none
of the lengths alone; all others are combined in order. Reductions that are the same for many
results are evaluated by each of them: the cost model of fusion counts that, and has them stored.
"""

from collections.abc import Sequence

from xla_server.codegen.gpu.grid import GridKernel, index_bits
from xla_server.codegen.gpu.schedules.elementwise import ThreadBuilder
from xla_server.codegen.kernel_ir.builder import Body, Loop, Names
from xla_server.codegen.kernel_ir.expressions import Apply, Cell, Expression, integer_op
from xla_server.codegen.kernel_ir.statements import Accumulate, Order
from xla_server.codegen.schedules.builders.graph_builder import applied
from xla_server.codegen.schedules.builders.loop_builder import Nest
from xla_server.codegen.schedules.reductions.vector_reductions import (
    VectorReduction,
    vector_reduction,
)
from xla_server.codegen.trace.graph import Reduction
from xla_server.ir.explicit_stack import Deep

RUN = 64
"""Number of elements that are combined in sequence."""


def thread_grid(nest: Nest, largest: int) -> GridKernel:
    """Return the kernel of any nest.

    `largest` is the number of elements of the largest array that the kernel has an index of.
    """
    return GridKernel(ReducingThreads(nest).built(), index_bits=index_bits(largest))


class ReducingThreads(ThreadBuilder):
    """Builds one work item for each result, with the loops of its reductions."""

    def __init__(self, nest: Nest) -> None:
        super().__init__(nest, max_run=1)

    def _reduced(self, reduction: Reduction) -> Deep[Sequence[Expression]]:
        if reduction not in self._results:
            body, form = self._body_of(reduction.variables), vector_reduction(reduction)
            if form is None or not reduction.loops:
                yield self._reduce_in_order(reduction, body)
            else:
                yield self._reduce_in_runs(reduction, form, body)
        return self._results[reduction]

    def _reduce_in_runs(
        self, reduction: Reduction, form: VectorReduction, body: Body
    ) -> Deep[None]:
        (start,) = yield self._all_evaluated(reduction.initial)
        runs = _Runs(self._names, form, self._value(form.neutral), body)
        for number, loop in enumerate(reduction.loops):
            is_last = number == len(reduction.loops) - 1
            low: int | Expression = 0
            high: int | Expression = loop.size
            if form.rounds and loop.size > RUN:
                outer = Loop(runs.inner, self._names("i"), loop.size, step=RUN)
                end = integer_op("minimum", integer_op("add", outer.axis, RUN), loop.size)
                low, high = outer.axis, outer.let(self._names("i"), end)
                runs.open(outer, is_sum=True)
            count = min(loop.size, RUN) if form.rounds else loop.size
            inner = self._open(loop, runs.inner, high, low, count)
            runs.open(inner, is_sum=form.rounds and not is_last)
        assert reduction.element is not None
        element: Expression = yield self._evaluated(reduction.element)
        element = applied(form.enter, element, runs.cell.type)
        origin = self._origin(reduction)
        runs.inner.add(Accumulate(runs.cell, form.join, element, Order.SEQUENTIAL, origin))
        total = runs.closed()
        found = Apply(form.join, (start, applied(form.leave, total, start.type)), start.type)
        self._results[reduction] = [body.let(self._names("a"), found)]


class _Runs:
    """Loops of one reduction while they are open; a loop that is a sum has a cell of its own."""

    def __init__(
        self, names: Names, form: VectorReduction, neutral: Expression, body: Body
    ) -> None:
        self._names, self._form, self._neutral = names, form, neutral
        self.inner = body
        self.cell = self._declared(body)
        self._opened: list[tuple[Loop, Cell]] = []

    def _declared(self, body: Body) -> Cell:
        return body.declare(self._names("a"), self._neutral)

    def open(self, loop: Loop, *, is_sum: bool) -> None:
        """Continue inside a loop."""
        self._opened.append((loop, self.cell))
        self.inner = loop
        if is_sum:
            self.cell = self._declared(loop)

    def closed(self) -> Cell:
        """Close all loops, each after its sum was added to that around it; return the last."""
        for loop, outer in reversed(self._opened):
            if self.cell is not outer:
                loop.add(Accumulate(outer, self._form.join, self.cell, Order.SEQUENTIAL))
            loop.close()
            self.cell = outer
        return self.cell
