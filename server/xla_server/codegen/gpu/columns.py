"""The schedule of columns on a GPU: a thread computes one result, and neighbours read neighbours.

It is for reductions over leading dimensions, of any form: a warp loads 32 neighbours of each row.
Elements whose order is free are combined in runs, whose results are then combined, so that errors
grow with neither number alone. Few long columns leave most of a GPU idle.
"""

from collections.abc import Sequence

from xla_server.codegen.gpu.elementwise import ThreadBuilder
from xla_server.codegen.gpu.grid import GridKernel, index_bits
from xla_server.codegen.kernel_ir.builder import Body, Loop
from xla_server.codegen.kernel_ir.expressions import Apply, Expression, integer_op
from xla_server.codegen.kernel_ir.statements import Accumulate, Order
from xla_server.codegen.loops.graph_builder import applied
from xla_server.codegen.loops.loop_builder import Nest
from xla_server.codegen.loops.reduction_groups import reductions_of
from xla_server.codegen.loops.stored_nodes import all_nodes
from xla_server.codegen.loops.vector_reductions import VectorReduction, vector_reduction
from xla_server.codegen.trace.graph import Load, Reduction
from xla_server.ir.explicit_stack import Deep

RUN = 64
"""Elements of a column that are combined one after the other."""


def column_kernel(nest: Nest, largest: int) -> GridKernel | None:
    """Return the kernel of a nest whose results are reductions of columns; None for others.

    `largest` is the number of elements of the largest array that the kernel has an index of.
    """
    reductions = reductions_of(nest.stores)
    if not reductions or not nest.loops:
        return None
    outer, last = set(nest.loops), nest.loops[-1]
    if not all({last} <= reduction.variables <= outer for reduction in reductions):
        return None
    loads = [node for node in all_nodes(nest.stores) if isinstance(node, Load)]
    if not any(term == (last, 1) for load in loads for term in load.offset.terms):
        return None
    kernel = _ColumnBuilder(nest, most=1).built()
    return GridKernel(kernel, index_bits=index_bits(largest))


class _ColumnBuilder(ThreadBuilder):
    """Builds one work item for each result."""

    def _reduced(self, reduction: Reduction) -> Deep[Sequence[Expression]]:
        if reduction not in self._results:
            body, form = self._body_of(reduction.variables), vector_reduction(reduction)
            if form is None or len(reduction.loops) != 1:
                yield self._reduce_in_order(reduction, body)
            else:
                yield self._reduce_in_runs(reduction, form, body)
        return self._results[reduction]

    def _reduce_in_runs(
        self, reduction: Reduction, form: VectorReduction, body: Body
    ) -> Deep[None]:
        (loop,) = reduction.loops
        (start,) = yield self._all_evaluated(reduction.initial)
        neutral = self._value(form.neutral)
        total = body.declare(self._names("a"), neutral)
        runs: Loop | None = None
        if loop.size > RUN:
            runs = Loop(body, self._names("i"), loop.size, step=RUN)
            end = integer_op("minimum", integer_op("add", runs.axis, RUN), loop.size)
            high = runs.let(self._names("i"), end)
            cell = runs.declare(self._names("a"), neutral)
            inner = self._open(loop, runs, high, runs.axis, RUN)
        else:
            cell, inner = total, self._open(loop, body)
        assert reduction.element is not None
        element: Expression = yield self._evaluated(reduction.element)
        element = applied(form.enter, element, cell.type)
        origin = self._origin(reduction)
        inner.add(Accumulate(cell, form.join, element, Order.SEQUENTIAL, origin))
        inner.close()
        if runs is not None:
            runs.add(Accumulate(total, form.join, cell, Order.SEQUENTIAL))
            runs.close()
        found = Apply(form.join, (start, applied(form.leave, total, start.type)), start.type)
        self._results[reduction] = [body.let(self._names("a"), found)]
