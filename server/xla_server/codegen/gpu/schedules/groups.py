"""Groups of threads that reduce together: each reduces a part, then all join their results.

A group has `parts` threads for each of `columns` neighbouring results. It traverses reduced
elements, and a row of results, in rounds: in each, the parts take consecutive runs. Results are
joined inside of a warp by exchanges, and those of warps through shared memory, in the order of
their numbers. Sizes and types alone decide that order.
"""

import dataclasses
import math
from collections.abc import Sequence

from xla_server.codegen.gpu.grid import GridKernel, index_bits
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Block, Body, Branch, Loop, positions
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Accumulate, Barrier, Order, ParallelFor, Shuffle
from xla_server.codegen.kernel_ir.statements import Store as StoreStatement
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.schedules.builders.graph_builder import applied
from xla_server.codegen.schedules.builders.loop_builder import LoopBuilder, Nest
from xla_server.codegen.schedules.builders.stored_nodes import all_nodes
from xla_server.codegen.schedules.reductions.reduction_groups import reductions_of
from xla_server.codegen.schedules.reductions.vector_reductions import vector_reduction
from xla_server.codegen.trace import graph
from xla_server.codegen.trace.graph import Reduction, ReductionResult, Store, variables_of
from xla_server.ir.analysis.affine import Variable
from xla_server.ir.explicit_stack import Deep
from xla_server.target.gpu.properties import (
    ACCESS_BYTES,
    BLOCK_THREADS,
    LONG_ROW_UNROLL,
    MAX_RUN,
    MAX_UNROLLED_ITERATIONS,
    WARP,
)

MAX_GROUP_THREADS = 512
"""Most threads of a group: with more a thread would have less than 128 registers."""

MIN_LENGTH = 64
MANY_RESULTS = 1 << 16
"""Fewest elements of a reduction, and the number of results below which a GPU would be idle, for
which groups replace a thread for each result."""


@dataclasses.dataclass(frozen=True, slots=True)
class Reduced:
    """The loops of a nest around its reductions, and the row loop of results, if any."""

    outer: tuple[Variable, ...]
    row: Variable | None
    longest: int
    """Elements of the longest reduction, or traversed row."""

    @classmethod
    def of(cls, nest: Nest) -> "Reduced | None":
        """Return the loops of a nest whose reductions have loops, in free order; else None.

        Also None if each group would repeat a reduction that varies with fewer loops and is longer
        than its own; and if short reductions, or those of many results, have several loops.
        """
        reductions = reductions_of(nest.stores)
        if any(vector_reduction(each) is None or not each.loops for each in reductions):
            return None
        around = {loop for each in reductions for loop in each.variables}
        rows = [loop for loop in nest.loops if loop not in around]
        if not reductions or not around <= set(nest.loops) or len(rows) > 1:
            return None
        own = [length_of(each) for each in reductions if each.variables == around]
        own += [row.size for row in rows]
        if any(length_of(each) > max(own, default=0) for each in reductions):
            return None
        outer = tuple(loop for loop in nest.loops if loop in around)
        found = cls(outer, rows[0] if rows else None, max(own))
        are_simple = all(len(each.loops) == 1 for each in reductions)
        return found if are_simple or found.is_long else None

    @property
    def results(self) -> int:
        """Results that a reduction has."""
        return math.prod(loop.size for loop in self.outer)

    @property
    def is_long(self) -> bool:
        """Return whether a thread for each result would leave a GPU idle."""
        return self.longest >= MIN_LENGTH and self.results < MANY_RESULTS


def length_of(reduction: Reduction) -> int:
    """Return the number of elements that a reduction combines."""
    return math.prod(loop.size for loop in reduction.loops)


def steps_of(nest: Nest, loop: Variable) -> set[int]:
    """Return the distances, in elements, of what successive iterations of a loop load."""
    loads = [node for node in all_nodes(nest.stores) if isinstance(node, graph.Load)]
    return {abs(step) for load in loads for term, step in load.offset.terms if term is loop}


def run_of(nest: Nest, length: int) -> int:
    """Return the number of neighbours of a row that one access of the widest array moves."""
    kinds = [store.kernel_type for store in nest.stores]
    kinds += [n.kernel_type for n in all_nodes(nest.stores) if isinstance(n, graph.Load)]
    widest = max(Type(kind.storage).byte_size for kind in kinds)
    return math.gcd(min(MAX_RUN, max(1, ACCESS_BYTES // widest)), length)


def power_above(number: int) -> int:
    """Return the smallest power of two that is at least `number`, which is at least 1."""
    return 1 << (number - 1).bit_length()


class GroupBuilder(LoopBuilder):
    """Builds the threads of groups. `columns` are neighbours in the last of the outer loops."""

    def __init__(self, nest: Nest, reduced: Reduced, parts: int, columns: int = 1) -> None:
        super().__init__(nest)
        self._reduced_loops, self._parts, self._columns = reduced, parts, columns
        self._threads = parts * columns
        self._has_result: ir.Expression | None = None

    def grid(self, largest: int) -> GridKernel:
        """Return the kernel and its launch; `largest` is the element count of its largest array."""
        threads = self._threads if self._threads > WARP else BLOCK_THREADS
        return GridKernel(self._built(), threads, index_bits(largest))

    def _built(self) -> Kernel:
        body, axis, row = Body(self._top), self._axis("t"), self._reduced_loops.row
        self._invariants = body
        items = self._bind(axis, body)
        # Reductions come first, as all threads execute their exchanges.
        for reduction in reductions_of(self._nest.stores):
            for number in range(len(reduction.initial)):
                self._value(ReductionResult(reduction, number))
        opened = self._open_parts((row,), body) if row is not None else []
        self._store(self._nest.stores, body)
        for block in reversed(opened):
            block.close()
        group = 1 if self._threads == 1 else max(WARP, self._threads)
        self._top.add(ParallelFor(axis, items, tuple(body.statements), group=group))
        return self._kernel()

    def _bind(self, axis: ir.Value, body: Body) -> int:
        """Bind the position of a thread and the outer variables; return the number of threads."""
        outer = self._reduced_loops.outer
        item = ir.Index(0, ((axis, 1),))
        self._thread = body.let(self._names("i"), ir.Remainder(item, self._threads))
        self._part: ir.Expression = self._thread
        self._column: ir.Expression = ir.Index(0)
        if self._columns > 1:
            thread = ir.Index(0, ((self._thread, 1),))
            self._part = body.let(self._names("i"), ir.Quotient(thread, self._columns))
            self._column = body.let(self._names("i"), ir.Remainder(thread, self._columns))
        number: ir.Expression = body.let(self._names("t"), ir.Quotient(item, self._threads))
        sizes = [loop.size for loop in outer]
        if self._columns > 1:
            sizes[-1] = -(-sizes[-1] // self._columns)
        groups = math.prod(sizes)
        items = groups * self._threads
        if self._threads < WARP and items % WARP and self._threads > 1:
            items = -(-items // WARP) * WARP
            number = self._clamped(number, groups, body)
        for position in reversed(range(len(outer))):
            loop, index = outer[position], ir.Index(0, ((number, 1),))
            found: ir.Expression = ir.Remainder(index, sizes[position]) if position else number
            if self._columns > 1 and position == len(outer) - 1:
                tile = body.let(self._names("i"), found)
                found = ir.Index(0, ((tile, self._columns), (self._column, 1)))
                if loop.size % self._columns:
                    found = self._clamped(found, loop.size, body)
            self._indices[loop] = body.let(self._names("i"), found)
            self._bodies[loop] = body
            if position:
                number = body.let(self._names("t"), ir.Quotient(index, sizes[position]))
        return items

    def _clamped(self, number: ir.Expression, count: int, body: Body) -> ir.Expression:
        """Return a number below `count`: threads without a result compute the last again."""
        self._has_result = body.let(self._names("b"), ir.condition("lt", number, count))
        return ir.integer_op("minimum", number, count - 1)

    def _store_statement(self, store: Store, value: ir.Expression) -> StoreStatement:
        """Return a store, which only the first part executes if it is one for the whole row."""
        found, row = super()._store_statement(store, value), self._reduced_loops.row
        guards: list[ir.Expression] = []
        if self._parts > 1 and (row is None or row not in variables_of(store.offset)):
            guards.append(ir.condition("eq", self._part, 0))
        guards += [each for each in (self._has_result, found.guard) if each is not None]
        guard = guards.pop() if guards else None
        for other in reversed(guards):
            assert guard is not None
            guard = ir.Apply("bit_and", (other, guard), Type.B1)
        return dataclasses.replace(found, guard=guard)

    def _open_parts(self, loops: Sequence[Variable], outside: Body) -> list[Block]:
        """Begin the loops of a thread over its part of a row, the last of them over a run.

        The row has the elements of all `loops` in their order.
        """
        *around, loop = loops
        run = 1 if self._columns > 1 else run_of(self._nest, loop.size)
        runs, parts = math.prod(each.size for each in loops) // run, self._parts
        iterations = -(-runs // parts)
        copies = 1 if iterations <= MAX_UNROLLED_ITERATIONS else LONG_ROW_UNROLL
        opened: list[Block] = []
        terms: list[tuple[ir.Expression, int]] = [(self._part, 1)]
        if copies > 1:
            iterations = -(-iterations // copies) * copies
            outer = Loop(outside, self._names("i"), iterations // copies)
            opened.append(outer)
            terms.insert(0, (outer.axis, copies * parts))
        inside = opened[-1] if opened else outside
        last = copies if copies > 1 else iterations
        row_loop = Loop(inside, self._names("i"), last, unrolled=True)
        opened.append(row_loop)
        terms.insert(-1, (row_loop.axis, parts))
        number = row_loop.let(self._names("i"), ir.Index(0, tuple(terms)))
        if runs < iterations * parts:
            share = runs / (iterations * parts)
            opened.append(Branch(row_loop, ir.condition("lt", number, runs), share))
        if around:
            sizes = [*(each.size for each in around), loop.size // run]
            *indices, number = positions(opened[-1], self._names, number, sizes)
            for each, position in zip(around, indices, strict=True):
                self._indices[each], self._bodies[each] = position, opened[-1]
        element = Loop(opened[-1], self._names("i"), run, unrolled=True)
        opened.append(element)
        index = element.let(self._names("i"), ir.Index(0, ((number, run), (element.axis, 1))))
        self._indices[loop], self._bodies[loop] = index, element
        return opened

    def _reduced(self, reduction: Reduction) -> Deep[Sequence[ir.Expression]]:
        if reduction not in self._results:
            yield self._reduce_in_parts(reduction)
        return self._results[reduction]

    def _reduce_in_parts(self, reduction: Reduction) -> Deep[None]:
        """Build the reduction of each thread's part, and the combination of the parts."""
        body = self._body_of(reduction.variables)
        (start,) = yield self._all_evaluated(reduction.initial)
        form = vector_reduction(reduction)
        assert form is not None
        assert reduction.element is not None
        cell = body.declare(self._names("a"), self._value(form.neutral))
        opened = self._open_parts(reduction.loops, body)
        element: ir.Expression = yield self._evaluated(reduction.element)
        element = applied(form.enter, element, cell.type)
        origin = self._origin(reduction)
        opened[-1].add(Accumulate(cell, form.join, element, Order.SEQUENTIAL, origin))
        for block in reversed(opened):
            block.close()
        total = self._joined(form.join, body.let(self._names("a"), cell), body)
        found = ir.Apply(form.join, (start, applied(form.leave, total, start.type)), start.type)
        self._results[reduction] = [body.let(self._names("a"), found)]

    def _joined(self, join: str, total: ir.Value, body: Body) -> ir.Value:
        """Build the combination of a group's parts, whose result all of its threads get."""

        def added(other: ir.Expression) -> ir.Value:
            return body.let(self._names("a"), ir.Apply(join, (total, other), total.type))

        distance = min(WARP, self._threads) // 2
        while distance >= self._columns:
            other = ir.Value(self._names("a"), total.type)
            body.add(Shuffle(other, total, distance))
            total = added(other)
            distance //= 2
        warps = self._threads // WARP
        if warps > 1:
            array = self._shared_array(warps * self._columns * total.type.byte_size)
            thread = ir.Index(0, ((self._thread, 1),))
            warp = body.let(self._names("i"), ir.Quotient(thread, WARP))
            lane = body.let(self._names("i"), ir.Remainder(thread, WARP))
            index = ir.Index(0, ((warp, self._columns), (self._column, 1)))
            guard = ir.condition("lt", lane, self._columns) if self._columns < WARP else None
            body.add(StoreStatement(array, total.type, index, total, guard), Barrier())
            for number in range(warps):
                index = ir.Index(number * self._columns, ((self._column, 1),))
                load = ir.Load(array, total.type, index)
                other = body.let(self._names("a"), load)
                total = added(other) if number else other
        return total
