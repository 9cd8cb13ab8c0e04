"""The schedule of rows on a GPU: a warp computes what is reduced over a row, and the row itself.

Each lane combines runs of neighbouring elements, 32 runs apart. Lanes then combine their results by
exchanges, in an order that the length of the row alone decides. Rows that results have are gone
through in the same way, so that softmax and norms are one kernel. Semantics: XLA's GPU backend, its
reduction emitter.
"""

import dataclasses
import math
from collections.abc import Sequence

from xla_server.codegen.gpu.grid import GridKernel, index_bits
from xla_server.codegen.kernel_ir.builder import Block, Body, Branch, Loop
from xla_server.codegen.kernel_ir.expressions import (
    Apply,
    Expression,
    Index,
    Quotient,
    Remainder,
    Value,
    condition,
)
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Accumulate, Exchange, Order, Part
from xla_server.codegen.kernel_ir.statements import Store as StoreStatement
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.loops.graph_builder import applied
from xla_server.codegen.loops.loop_builder import LoopBuilder, Nest
from xla_server.codegen.loops.reduction_groups import reductions_of
from xla_server.codegen.loops.stored_nodes import all_nodes
from xla_server.codegen.loops.vector_reductions import vector_reduction
from xla_server.codegen.trace.graph import (
    Load,
    Node,
    Reduction,
    ReductionResult,
    Store,
    variables_of,
)
from xla_server.ir.affine import Variable
from xla_server.ir.explicit_stack import Deep
from xla_server.target.gpu import ACCESS_BYTES, MAX_RUN, MAX_WARP_ROW, WARP

_DISTANCES = (16, 8, 4, 2, 1)
"""Exchanges after which each lane has what all of them had."""


def row_kernel(nest: Nest, largest: int) -> GridKernel | None:
    """Return the kernel of a nest whose reductions run over rows in memory; None for others.

    `largest` is the number of elements of the largest array that the kernel has an index of.
    """
    reductions = reductions_of(nest.stores)
    outer = {variable for reduction in reductions for variable in reduction.variables}
    rows = [loop for loop in nest.loops if loop not in outer]
    if not reductions or not outer <= set(nest.loops) or rows not in ([], [*nest.loops[-1:]]):
        return None
    nodes = all_nodes(nest.stores)
    if not all(_is_of_row(reduction, nodes) for reduction in reductions):
        return None
    kernel = _WarpBuilder(nest, rows).built()
    return GridKernel(kernel, index_bits=index_bits(largest))


def _is_of_row(reduction: Reduction, nodes: Sequence[Node]) -> bool:
    """Return whether a reduction of free order goes through neighbouring elements of a row."""
    if vector_reduction(reduction) is None or len(reduction.loops) != 1:
        return False
    (loop,) = reduction.loops
    loads = [node for node in nodes if isinstance(node, Load)]
    steps = {factor for load in loads for atom, factor in load.offset.terms if atom is loop}
    return loop.size <= MAX_WARP_ROW and (1 in steps or not reduction.variables)


class _WarpBuilder(LoopBuilder):
    """Builds a group of work items, one for each lane, for each row."""

    def __init__(self, nest: Nest, rows: Sequence[Variable]) -> None:
        super().__init__(nest)
        self._rows = rows
        self._outer = [loop for loop in nest.loops if loop not in rows]

    def built(self) -> Kernel:
        """Return the kernel."""
        body, axis = Body(self._top), self._axis("t")
        self._invariants = body
        item = Index(0, ((axis, 1),))
        self._lane = body.let(self._names("i"), Remainder(item, WARP))
        row: Expression = body.let(self._names("t"), Quotient(item, WARP))
        for loop in reversed(self._outer):
            index = Index(0, ((row, 1),))
            self._indices[loop] = body.let(self._names("i"), Remainder(index, loop.size))
            self._bodies[loop] = body
            row = body.let(self._names("t"), Quotient(index, loop.size))
        # Reductions come first: their exchanges are for all lanes.
        for reduction in reductions_of(self._nest.stores):
            for number in range(len(reduction.initial)):
                self._value(ReductionResult(reduction, number))
        opened = self._open_lanes(self._rows[0], body) if self._rows else []
        self._store(self._nest.stores, body)
        for block in reversed(opened):
            block.close()
        items = math.prod(loop.size for loop in self._outer) * WARP
        self._top.add(Part(axis, items, tuple(body.statements), group=WARP))
        return self._kernel()

    def _store_statement(self, store: Store, value: Expression) -> StoreStatement:
        """Return a store, which the first lane alone does where it is one for the whole row."""
        found = super()._store_statement(store, value)
        if self._rows and self._rows[0] in variables_of(store.offset):
            return found
        is_first: Expression = condition("eq", self._lane, 0)
        if found.guard is not None:
            is_first = Apply("bit_and", (is_first, found.guard), Type.B1)
        return dataclasses.replace(found, guard=is_first)

    def _open_lanes(self, loop: Variable, outside: Body) -> list[Block]:
        """Begin the loops of a lane over its part of a row, the last of them over a run."""
        run = self._run(loop)
        runs = loop.size // run
        turn = Loop(outside, self._names("i"), -(-runs // WARP))
        opened: list[Block] = [turn]
        number = turn.let(self._names("i"), Index(0, ((turn.axis, WARP), (self._lane, 1))))
        if runs % WARP:
            opened.append(Branch(turn, condition("lt", number, runs)))
        element = Loop(opened[-1], self._names("i"), run, unrolled=True)
        opened.append(element)
        index = element.let(self._names("i"), Index(0, ((number, run), (element.axis, 1))))
        self._indices[loop], self._bodies[loop] = index, element
        return opened

    def _run(self, loop: Variable) -> int:
        """Return how many neighbours a lane computes: an access of the widest array at most."""
        stores = self._nest.stores
        kinds = [store.kernel_type for store in stores]
        kinds += [node.kernel_type for node in all_nodes(stores) if isinstance(node, Load)]
        widest = max(Type(kind.storage).byte_size for kind in kinds)
        return math.gcd(min(MAX_RUN, max(1, ACCESS_BYTES // widest)), loop.size)

    def _reduced(self, reduction: Reduction) -> Deep[Sequence[Expression]]:
        if reduction not in self._results:
            yield self._reduce_in_warp(reduction)
        return self._results[reduction]

    def _reduce_in_warp(self, reduction: Reduction) -> Deep[None]:
        """Build the part of each lane, and the exchanges that combine the parts."""
        body = self._body_of(reduction.variables)
        (start,) = yield self._all_evaluated(reduction.initial)
        form = vector_reduction(reduction)
        assert form is not None
        assert reduction.element is not None
        cell = body.declare(self._names("a"), self._value(form.neutral))
        opened = self._open_lanes(reduction.loops[0], body)
        element: Expression = yield self._evaluated(reduction.element)
        element = applied(form.enter, element, cell.type)
        origin = self._origin(reduction)
        opened[-1].add(Accumulate(cell, form.join, element, Order.SEQUENTIAL, origin))
        for block in reversed(opened):
            block.close()
        total = body.let(self._names("a"), cell)
        for distance in _DISTANCES:
            other = Value(self._names("a"), total.type)
            body.add(Exchange(other, total, distance))
            total = body.let(self._names("a"), Apply(form.join, (total, other), total.type))
        found = Apply(form.join, (start, applied(form.leave, total, start.type)), start.type)
        self._results[reduction] = [body.let(self._names("a"), found)]
