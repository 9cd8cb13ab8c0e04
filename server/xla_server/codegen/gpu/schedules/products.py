"""The schedule of matrix products on a GPU, and of all sums of functions of rows and columns.

A block of threads computes a tile of the results. Values of its rows and of its columns pass
through shared memory, in steps along the sum. Each is computed once for a tile, with all that is
fused into it. A thread combines the values of a column with those of several rows. Distances
between points are such sums, too, and convolutions, whose rows are positions of the window. Sizes
alone decide the order of a sum. Semantics: XLA, DotGeneral.
"""

import dataclasses
import math
from collections.abc import Sequence, Set

from xla_server.codegen.gpu.grid import GridKernel, index_bits
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Loop, positions
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Accumulate, Barrier, Order, ParallelFor
from xla_server.codegen.kernel_ir.statements import Store as StoreStatement
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.schedules.builders.graph_builder import applied
from xla_server.codegen.schedules.builders.loop_builder import LoopBuilder, Nest
from xla_server.codegen.schedules.reductions.reduction_groups import reductions_of
from xla_server.codegen.schedules.reductions.vector_reductions import (
    VectorReduction,
    vector_reduction,
)
from xla_server.codegen.trace import graph
from xla_server.codegen.trace.graph import Node, Reduction, reached, variables_of
from xla_server.ir.analysis.affine import Variable
from xla_server.ir.explicit_stack import Deep, result_of
from xla_server.target.gpu.properties import (
    ACCESS_BYTES,
    BLOCK_THREADS,
    PRODUCT_LEAST,
    PRODUCT_TILE,
    STATIC_SHARED_BYTES,
    WARP,
)

_WARPS = BLOCK_THREADS // WARP
"""Rows of a tile that the warps of a block compute at a time, one each."""


def product_grid(nest: Nest, largest: int) -> GridKernel | None:
    """Return the kernel of a nest of one sum of functions of rows and columns; None for others.

    `largest` is the number of elements of the largest array that the kernel has an index of.
    """
    sides = _Sides.of(nest)
    if sides is None or min(map(_size, (sides.rows, sides.columns, sides.depths))) < PRODUCT_LEAST:
        return None
    builder = _TileBuilder(nest, sides)
    if builder.shared_bytes > STATIC_SHARED_BYTES:
        return None
    return GridKernel(builder.built(), index_bits=index_bits(largest))


def _size(loops: Sequence[Variable]) -> int:
    return math.prod(loop.size for loop in loops)


@dataclasses.dataclass(frozen=True, slots=True)
class _Sides:
    """The loops of a nest by the side of its sum that varies with them, and the nodes of each side.

    Both vary with the batch's loops, `left` with no columns and `right` with no rows.
    """

    reduction: Reduction
    form: VectorReduction
    batch: tuple[Variable, ...]
    rows: tuple[Variable, ...]
    columns: tuple[Variable, ...]
    left: tuple[Node, ...]
    right: tuple[Node, ...]

    @property
    def depths(self) -> tuple[Variable, ...]:
        """The loops of the sum."""
        return self.reduction.loops

    @classmethod
    def of(cls, nest: Nest) -> "_Sides | None":
        """Return the sides of a nest. The last loop, of neighbouring results, is a column's."""
        reductions, loops = reductions_of(nest.stores), frozenset(nest.loops)
        if len(reductions) != 1 or not loops or reductions[0].variables != loops:
            return None
        (reduction,) = reductions
        element, form = reduction.element, vector_reduction(reduction)
        if element is None or form is None or reduction.initial[0].variables:
            return None
        if any(variables_of(store.offset) != loops for store in nest.stores):
            return None
        needed = [
            node.variables & loops
            for node in reached([element])
            if isinstance(node, graph.Load | graph.Position)
        ]
        rows = loops.difference(*(each for each in needed if nest.loops[-1] in each))
        columns = loops.difference(*(each for each in needed if each & rows))
        found = _separated(element, rows, columns)
        if found is None:
            return None
        batch, first, last = (
            tuple(loop for loop in nest.loops if loop in kind)
            for kind in (loops - rows - columns, rows, columns)
        )
        return cls(reduction, form, batch, first, last, *found)


def _separated(
    element: Node, rows: Set[Variable], columns: Set[Variable]
) -> tuple[tuple[Node, ...], tuple[Node, ...]] | None:
    """Return the nodes of an element that do not vary with columns, and those not with rows.

    Returns None if a node varies with both and is no function of other nodes.
    """
    left: dict[Node, None] = {}
    right: dict[Node, None] = {}
    waiting = [element]
    while waiting:
        node = waiting.pop()
        if isinstance(node, graph.Immediate):
            continue
        if not node.variables & columns:
            left[node] = None
        elif not node.variables & rows:
            right[node] = None
        elif isinstance(node, graph.Apply):
            waiting += node.operands
        else:
            return None
    return tuple(left), tuple(right)


class _TileBuilder(LoopBuilder):
    """Builds a block for each tile of rows and columns."""

    def __init__(self, nest: Nest, sides: _Sides) -> None:
        super().__init__(nest)
        self._sides = sides
        self._guards: list[ir.Expression] = []
        widths = [Type(node.type).byte_size for node in (*sides.left, *sides.right)]
        shared_bytes = sum(2 * WARP * (PRODUCT_TILE + 1) * width for width in widths)
        # Two products that share a launch may have longer steps, with fewer barriers.
        self._step = WARP if shared_bytes > STATIC_SHARED_BYTES // 2 else 2 * WARP
        self._staged = {
            node: self._shared_array(PRODUCT_TILE * self._pitch(node) * Type(node.type).byte_size)
            for node in (*sides.left, *sides.right)
        }

    def _pitch(self, node: Node) -> int:
        """Return the distance between rows of a tile in shared memory.

        The lanes that access 16 bytes at once are then in banks of their own.
        """
        return self._step + max(1, ACCESS_BYTES // Type(node.type).byte_size)

    def built(self) -> Kernel:
        """Return the kernel."""
        body, axis = Body(self._top), self._axis("t")
        self._invariants = body
        blocks = self._bind(axis, body)
        sides, form = self._sides, self._sides.form
        (start,) = result_of(self._all_evaluated(sides.reduction.initial))
        neutral = self._value(form.neutral)
        rows = range(PRODUCT_TILE // _WARPS)
        totals = [body.declare(self._names("a"), neutral) for _ in rows]
        steps, rest = divmod(_size(sides.depths), self._step)
        if steps:
            with Loop(body, self._names("i"), steps) as step:
                self._build_step(ir.Index(0, ((step.axis, self._step),)), self._step, totals, step)
        if rest:
            self._build_step(ir.Index(steps * self._step), rest, totals, body)
        for number, total in enumerate(totals):
            joined = applied(form.leave, body.let(self._names("a"), total), start.type)
            found = ir.Apply(form.join, (start, joined), start.type)
            self._build_result(number, body.let(self._names("a"), found), body)
        items = blocks * BLOCK_THREADS
        self._top.add(ParallelFor(axis, items, tuple(body.statements), group=BLOCK_THREADS))
        return self._kernel()

    def _bind(self, axis: ir.Value, body: Body) -> int:
        """Bind the position of a thread, its tile and the batch; return the blocks."""
        item = ir.Index(0, ((axis, 1),))
        self._thread = body.let(self._names("i"), ir.Remainder(item, BLOCK_THREADS))
        self._lane = self._remainder(self._thread, WARP, body)
        self._warp = self._quotient(self._thread, WARP, body)
        number: ir.Expression = body.let(self._names("t"), ir.Quotient(item, BLOCK_THREADS))
        tiles = [
            -(-_size(each) // PRODUCT_TILE) for each in (self._sides.rows, self._sides.columns)
        ]
        firsts = []
        for count in reversed(tiles):
            tile = self._remainder(number, count, body)
            firsts.append(body.let(self._names("i"), ir.Index(0, ((tile, PRODUCT_TILE),))))
            number = self._quotient(number, count, body)
        self._first_column, self._first_row = firsts
        self._bind_loops(self._sides.batch, number, body)
        return math.prod(tiles) * _size(self._sides.batch)

    def _remainder(self, number: ir.Expression, divisor: int, body: Body) -> ir.Value:
        return body.let(self._names("i"), ir.Remainder(ir.Index(0, ((number, 1),)), divisor))

    def _quotient(self, number: ir.Expression, divisor: int, body: Body) -> ir.Value:
        return body.let(self._names("t"), ir.Quotient(ir.Index(0, ((number, 1),)), divisor))

    def _bind_loops(self, loops: Sequence[Variable], number: ir.Expression, body: Body) -> None:
        """Bind the variables of loops that are one, by the number of an iteration."""
        found = positions(body, self._names, number, [loop.size for loop in loops])
        for loop, value in zip(loops, found, strict=True):
            self._indices[loop], self._bodies[loop] = value, body

    def _bind_element(
        self,
        loops: Sequence[Variable],
        first: ir.Expression,
        inside: ir.Expression,
        run: int,
        body: Body,
        element: ir.Expression,
    ) -> None:
        """Bind loops that are one to an element of a tile.

        Threads beyond the last run of elements repeat that run.
        """
        size = _size(loops)
        terms: tuple[tuple[ir.Expression, int], ...] = ((first, 1), (inside, 1))
        if size % PRODUCT_TILE:
            number = body.let(self._names("i"), ir.Index(0, terms))
            last = ir.integer_op("minimum", number, size - run)
            terms = ((body.let(self._names("i"), last), 1),)
        at = body.let(self._names("i"), ir.Index(0, (*terms, (element, 1))))
        self._bind_loops(loops, at, body)

    def _build_step(
        self, first: ir.Expression, count: int, totals: Sequence[ir.Cell], body: Body
    ) -> None:
        """Build the part of the sums from an element on."""
        sides, known = self._sides, (dict(self._values), dict(self._stored))
        for nodes, loops, tile in (
            (sides.left, sides.rows, self._first_row),
            (sides.right, sides.columns, self._first_column),
        ):
            for node in nodes:
                self._stage(node, loops, tile, first, count, body)
        body.add(Barrier())
        cells, is_sum = list(totals), sides.form.rounds and _size(sides.depths) > self._step
        if is_sum:
            neutral = self._value(sides.form.neutral)
            cells = [body.declare(self._names("a"), neutral) for _ in totals]
        # Neighbours along the sum are one access.
        run = math.gcd(count, ACCESS_BYTES // 4)
        # Were all loads of a step known at once, ptxas would begin with them, in 140 registers.
        outer = Loop(body, self._names("i"), count // run, unrolled=False)
        with outer, Loop(outer, self._names("i"), run, unrolled=True) as element:
            at = element.let(self._names("i"), ir.Index(0, ((outer.axis, run), (element.axis, 1))))
            self._combine(at, cells, element)
        if is_sum:
            for total, cell in zip(totals, cells, strict=True):
                body.add(Accumulate(total, sides.form.join, cell, Order.SEQUENTIAL))
        body.add(Barrier())
        self._values, self._stored = known

    def _stage(
        self,
        node: Node,
        loops: Sequence[Variable],
        tile: ir.Expression,
        first: ir.Expression,
        count: int,
        outside: Body,
    ) -> None:
        """Build the stores of a step of one side's values, neighbours in memory by neighbours."""
        known = dict(self._values), dict(self._stored)
        depths = self._sides.depths
        is_along = _is_along(node, depths[-1], loops[-1])
        step = self._step if count > WARP else WARP
        length = step if is_along else PRODUCT_TILE
        share = PRODUCT_TILE * step // BLOCK_THREADS
        run = min(share, _run(node, depths[-1] if is_along else loops[-1]))
        lanes = length // run
        offset = self._remainder(self._thread, lanes, outside)
        line = self._quotient(self._thread, lanes, outside)
        outer = Loop(outside, self._names("i"), share // run, unrolled=True)
        body = Loop(outer, self._names("i"), run, unrolled=True)
        near = body.let(self._names("i"), ir.Index(0, ((offset, run),)))
        terms: tuple[tuple[ir.Expression, int], ...] = (
            (outer.axis, BLOCK_THREADS // lanes),
            (line, 1),
        )
        far = body.let(self._names("i"), ir.Index(0, terms))
        along, across = (near, far) if is_along else (far, near)
        zero: ir.Expression = ir.Index(0)
        parts = (body.axis, zero) if is_along else (zero, body.axis)
        runs = (run, 1) if is_along else (1, run)
        inside: ir.Expression = along
        if count < step:
            inside = ir.integer_op("minimum", along, count - runs[0])
            inside = body.let(self._names("i"), inside)
        at = body.let(self._names("i"), ir.Index(0, ((first, 1), (inside, 1), (parts[0], 1))))
        self._bind_loops(depths, at, body)
        self._bind_element(loops, tile, across, runs[1], body, parts[1])
        value = self._value(node)
        pitch = self._pitch(node)
        terms = ((across, pitch), (parts[1], pitch), (along, 1), (parts[0], 1))
        body.store(self._staged[node], node.type, ir.Index(0, terms), value)
        body.close()
        outer.close()
        self._values, self._stored = known

    def _combine(self, at: ir.Expression, cells: Sequence[ir.Cell], body: Body) -> None:
        """Build the addition of one element of a sum to the results of a thread."""
        sides = self._sides
        for loop in (*sides.depths, *sides.rows, *sides.columns):
            self._bodies[loop] = body
        origin = self._origin(sides.reduction)
        self._read(sides.right, self._lane, 0, at, body)
        known = dict(self._values)
        for number, cell in enumerate(cells):
            self._read(sides.left, self._warp, number * _WARPS, at, body)
            result_of(self._accumulate(cell, body, origin))
            self._values = dict(known)

    def _read(
        self, nodes: Sequence[Node], line: ir.Expression, first: int, at: ir.Expression, body: Body
    ) -> None:
        """Load the values of one side for an element of a sum."""
        for node in nodes:
            pitch = self._pitch(node)
            index = ir.Index(first * pitch, ((line, pitch), (at, 1)))
            load = ir.Load(self._staged[node], Type(node.type), index)
            self._values[node] = body.let(self._names("v"), load)

    def _accumulate(self, cell: ir.Cell, body: Body, origin: int | None) -> Deep[None]:
        """Build one more element of a sum. A product of floats is not rounded before."""
        element, form = self._sides.reduction.element, self._sides.form
        assert element is not None
        is_sum = form.join == "add" and cell.type in ("f32", "f64")
        if is_sum and isinstance(element, graph.Apply) and element.function == "mul":
            factors: list[ir.Expression] = yield self._all_evaluated(element.operands)
            body.set(cell, ir.Apply("fma", (*factors, cell), cell.type), origin)
            return
        value: ir.Expression = yield self._evaluated(element)
        value = applied(form.enter, value, cell.type)
        body.add(Accumulate(cell, form.join, value, Order.SEQUENTIAL, origin))

    def _build_result(self, number: int, total: ir.Value, body: Body) -> None:
        """Build the epilogue of a result of each thread, and its stores."""
        sides, known = self._sides, (dict(self._values), dict(self._stored))
        inside = body.let(self._names("i"), ir.Index(number * _WARPS, ((self._warp, 1),)))
        self._guards = []
        for loops, first, at in (
            (sides.rows, self._first_row, inside),
            (sides.columns, self._first_column, self._lane),
        ):
            self._bind_element(loops, first, at, 1, body, ir.Index(0))
            if _size(loops) % PRODUCT_TILE:
                index = body.let(self._names("i"), ir.Index(0, ((first, 1), (at, 1))))
                self._guards.append(ir.condition("lt", index, _size(loops)))
        self._results[sides.reduction] = [total]
        self._store(self._nest.stores, body)
        self._values, self._stored = known

    def _store_statement(self, store: graph.Store, value: ir.Expression) -> StoreStatement:
        """Return a store, which threads without a result skip."""
        found = super()._store_statement(store, value)
        guard = ir.all_of(self._guards) if self._guards else None
        return dataclasses.replace(found, guard=guard)

    def _reduced(self, reduction: Reduction) -> Deep[Sequence[ir.Expression]]:
        yield from ()
        return self._results[reduction]


def _is_along(node: Node, depth: Variable, loop: Variable) -> bool:
    """Return whether neighbours in memory follow each other along the sum."""
    terms = [term for load in _loads(node) for term in load.offset.terms]
    return (depth, 1) in terms or (loop, 1) not in terms


def _run(node: Node, loop: Variable) -> int:
    """Return how many neighbours a thread loads at once: more than one if all are aligned."""
    loads = _loads(node)
    widest = max((Type(load.kernel_type.storage).byte_size for load in loads), default=ACCESS_BYTES)
    run = max(1, ACCESS_BYTES // widest)
    numbers = [load.offset.constant for load in loads]
    numbers += [f for load in loads for atom, f in load.offset.terms if (atom, f) != (loop, 1)]
    are_affine = all(isinstance(atom, Variable) for load in loads for atom, _ in load.offset.terms)
    is_aligned = are_affine and all((loop, 1) in load.offset.terms for load in loads)
    return run if is_aligned and not any(n % run for n in (*numbers, loop.size)) else 1


def _loads(node: Node) -> list[graph.Load]:
    return [each for each in reached([node]) if isinstance(each, graph.Load)]
