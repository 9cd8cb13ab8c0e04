"""Lowering of running sums, products, maxima for a GPU: lines in parts, whose totals are scanned.

A warp scans a line along the last dimension, with neighbours in its lanes, and a thread a line
along other dimensions, where neighbours belong to other lines. A long line is split into parts: one
kernel computes their totals, a scan of these gives the start value of each part, and another kernel
scans the parts. Each element is read twice and combined up to eleven times; the order is that of
sizes alone.

Reducers that are not known to be associative are applied in order, by one thread for a line: the
time then grows with the length. Running values are those of processors
(codegen/lower/reduction/scan.py).
"""

import math
from collections.abc import Sequence

from xla_contract.types.shape import Shape
from xla_server.buffers.code import Value as Array
from xla_server.codegen.gpu.lower.reduction.scan_levels import (
    Bound,
    Elements,
    ScanLevel,
    ScanLines,
    State,
    Totals,
    join_states,
    load_state,
    store_state,
)
from xla_server.codegen.gpu.lower.thunks.thread_thunks import ThreadKernel
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Branch, Items, Loop
from xla_server.codegen.kernel_ir.statements import ParallelFor, Shuffle
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.lower.reduction.scan import ScanStep, step_of
from xla_server.fusion.analysis.windows import is_backwards, running_axis
from xla_server.ir.module import HloInstruction
from xla_server.target.gpu.properties import WARP

_DISTANCES = (1, 2, 4, 8, 16)
"""Lanes between the operands of each step of a scan in a warp: powers of two below its 32 lanes."""


def lower_running_window(lowering: Lowering, i: HloInstruction) -> Tree:
    """Scans for a reduce-window that has a `running_axis` and elements."""
    axis = running_axis(i)
    assert axis is not None
    results = lowering.results(i)
    sizes = results[0].shape.dimensions
    lines = ScanLines(math.prod(sizes[:axis]), sizes[axis], math.prod(sizes[axis + 1 :]))
    operands = tuple(lowering.array(operand) for operand in i.operands)
    elements = Elements(step_of(i), operands, results, is_backwards(i, axis))
    _Scan(lowering, i.name, elements).add(lines)
    return results if i.shape.is_tuple else results[0]


class _Scan:
    """Builder of the kernels of a scan."""

    def __init__(self, lowering: Lowering, name: str, elements: Elements) -> None:
        self._lowering, self._name = lowering, name
        self._step = elements.step
        self._level: ScanLevel = elements
        self._depth = 0

    def add(self, lines: ScanLines) -> None:
        """Add the kernels that scan lines of the level: one, or more if lines have parts."""
        level, size = self._level, lines.part(self._step)
        whole = -(-lines.length // size) - 1
        carries: Sequence[Array] = ()
        if whole:
            parts = ScanLines(lines.outer, whole, lines.inner)
            totals, carries = (self._values(name, parts) for name in ("totals", "carries"))
            self._add_kernel(lines, whole, totals)
            self._level, self._depth = Totals(self._step, totals, carries), self._depth + 1
            self.add(parts)
            self._level, self._depth = level, self._depth - 1
        self._add_kernel(lines, whole + 1, (), carries)

    def _values(self, name: str, parts: ScanLines) -> list[Array]:
        count = parts.count * parts.length
        return [
            self._lowering.new(
                Shape.array(kind, (count,)), f"{self._name}.{name}.{self._depth}.{n}"
            )
            for n, kind in enumerate(self._step.types)
        ]

    def _add_kernel(
        self,
        lines: ScanLines,
        parts: int,
        totals: Sequence[Array],
        carries: Sequence[Array] = (),
    ) -> None:
        """Add the kernel of `parts` of each line: it computes `totals` if these are requested."""
        suffix = "" if not self._depth else f".{self._depth}"
        kernel = ThreadKernel(f"{self._name}{suffix}{'.totals' if totals else ''}")
        bound = self._level.bind(kernel, lines)
        form = _Warps if lines.warps(self._step) else _Threads
        built = form(kernel, self._step, lines, bound, parts)
        if totals:
            built.total(totals)
        else:
            built.scan(carries)
        self._lowering.add(kernel.thunk())


class _Parts:
    """Builder of a kernel of parts of lines."""

    def __init__(
        self, kernel: ThreadKernel, step: ScanStep, lines: ScanLines, bound: Bound, parts: int
    ) -> None:
        self._kernel, self._names, self._step = kernel, kernel.names, step
        self._lines, self._bound, self._parts = lines, bound, parts
        self._size = lines.part(step)

    def _opened(self, body: Body, number: ir.Expression) -> None:
        """Bind the part of a number, whose line's inner number changes fastest."""
        inner, parts, let = self._lines.inner, self._parts, body.let
        item, row = ir.Index(0, ((number, 1),)), number
        self._inner: ir.Expression = ir.Index(0)
        if inner > 1:
            self._inner = let("inner", ir.Remainder(item, inner))
            row = let("row", ir.Quotient(item, inner))
        self._part: ir.Expression = ir.Index(0)
        outer = row
        if parts > 1:
            self._part = let("part", ir.Remainder(ir.Index(0, ((row, 1),)), parts))
            outer = let("outer", ir.Quotient(ir.Index(0, ((row, 1),)), parts))
        self._line = outer, self._inner
        self._first = let("first", ir.Index(0, ((self._part, self._size),)))

    def _of_part(self, parts: int, before: bool = False) -> ir.Index:
        """Return the index, among values per part, of this part or of the one before it."""
        part = self._part
        if before:
            part = ir.integer_op("maximum", ir.plus(part, -1), 0)
        return ScanLines(0, parts, self._lines.inner).element(self._line, part)

    def _joined(self, body: Body, left: State, right: State) -> State:
        return join_states(body, self._kernel, self._step, left, right)

    def _chosen(self, body: Body, test: ir.Expression, yes: State, no: State) -> State:
        return [
            body.let(self._names("run"), ir.Apply("select", (test, *pair), pair[0].type))
            for pair in zip(yes, no, strict=True)
        ]


class _Threads(_Parts):
    """Threads, each with a part."""

    def total(self, totals: Sequence[Array]) -> None:
        """Build the kernel of totals."""
        with self._items() as body:
            state = self._bound.begin(body, self._line, self._first)
            cells = [body.declare(self._names("run"), each) for each in state]
            with Loop(body, "n", self._size, 1) as loop:
                at = loop.let("element", ir.Index(0, ((self._first, 1), (loop.axis, 1))))
                after = self._bound.advance(loop, self._line, at, cells)
                for cell, each in zip(cells, after, strict=True):
                    loop.set(cell, each)
            store_state(body, self._kernel, totals, self._of_part(self._parts), cells)

    def scan(self, carries: Sequence[Array]) -> None:
        """Build the kernel of results."""
        with self._items() as body:
            state = self._bound.begin(body, self._line, self._first)
            if carries:
                index = self._of_part(self._parts - 1, before=True)
                before = load_state(body, self._kernel, carries, index)
                joined = self._joined(body, before, state)
                has_some = ir.condition("gt", self._part, 0)
                state = self._chosen(body, has_some, joined, state)
            cells = [body.declare(self._names("run"), each) for each in state]
            self._bound.store(body, self._line, self._first, cells)
            end = ir.integer_op("minimum", ir.plus(self._first, self._size), self._lines.length)
            with Loop(body, "n", end, ir.plus(self._first, 1), iterations=self._size - 1) as loop:
                after = self._bound.advance(loop, self._line, loop.axis, cells)
                for cell, each in zip(cells, after, strict=True):
                    loop.set(cell, each)
                self._bound.store(loop, self._line, loop.axis, after)

    def _items(self) -> Items:
        items = Items(self._kernel.top, self._lines.count * self._parts)
        self._opened(items, items.axis)
        return items


class _Warps(_Parts):
    """Warps, each with a part, whose lanes have neighbours."""

    def total(self, totals: Sequence[Array]) -> None:
        """Build the kernel of totals: each lane computes its own, then all lanes combine them."""
        body, axis, lane = self._items()
        first = body.let("own", ir.Index(0, ((self._first, 1), (lane, 1))))
        state = self._bound.begin(body, self._line, first)
        cells = [body.declare(self._names("run"), each) for each in state]
        with Loop(body, "n", self._size // WARP, 1) as loop:
            at = loop.let("element", ir.Index(0, ((first, 1), (loop.axis, WARP))))
            after = self._bound.advance(loop, self._line, at, cells)
            for cell, each in zip(cells, after, strict=True):
                loop.set(cell, each)
        total: State = [body.let(self._names("run"), cell) for cell in cells]
        for distance in _DISTANCES:
            total = self._joined(body, total, self._exchanged(body, total, distance))
        with Branch(body, ir.condition("eq", lane, 0), 1 / WARP) as branch:
            store_state(branch, self._kernel, totals, self._of_part(self._parts), total)
        self._close(body, axis)

    def scan(self, carries: Sequence[Array]) -> None:
        """Build the kernel of results: a warp scans its part, one element per lane at a time."""
        body, axis, lane = self._items()
        length = self._lines.length
        iterations = -(-min(self._size, length) // WARP)
        # The value before the first is undefined and not used.
        if carries:
            index = self._of_part(self._parts - 1, before=True)
            start = load_state(body, self._kernel, carries, index)
        else:
            start = self._bound.begin(body, self._line, self._first)
        carry = [body.declare(self._names("run"), each) for each in start]
        with Loop(body, "n", iterations) as loop:
            begin = loop.let("begin", ir.Index(0, ((self._first, 1), (loop.axis, WARP))))
            number = loop.let("element", ir.Index(0, ((begin, 1), (lane, 1))))
            inside = loop.let("inside", ir.integer_op("minimum", number, length - 1))
            prefix, total = self._scanned(loop, lane, inside)
            has_some = loop.let("some", ir.condition("gt", begin, 0))
            before: State = [loop.let(self._names("run"), cell) for cell in carry]
            found = self._chosen(loop, has_some, self._joined(loop, before, prefix), prefix)
            with Branch(loop, ir.condition("lt", number, length)) as branch:
                self._bound.store(branch, self._line, number, found)
            after = self._chosen(loop, has_some, self._joined(loop, before, total), total)
            for cell, each in zip(carry, after, strict=True):
                loop.set(cell, each)
        self._close(body, axis)

    def _scanned(self, body: Body, lane: ir.Value, at: ir.Expression) -> tuple[State, State]:
        """Return the running values of a lane's element among those of all lanes, and of all.

        Elements beyond the end of a line repeat its last one; their results are not used.
        """
        prefix = total = self._bound.begin(body, self._line, at)
        for distance in _DISTANCES:
            other = self._exchanged(body, total, distance)
            bit = ir.integer_op("bit_and", lane, distance)
            is_later = body.let(self._names("later"), ir.condition("ne", bit, 0))
            left = self._chosen(body, is_later, other, total)
            right = self._chosen(body, is_later, total, other)
            joined = self._joined(body, other, prefix)
            prefix = self._chosen(body, is_later, joined, prefix)
            total = self._joined(body, left, right)
        return prefix, total

    def _exchanged(self, body: Body, state: State, distance: int) -> State:
        others = []
        for each in state:
            other = ir.Value(self._names("other"), each.type)
            body.add(Shuffle(other, each, distance))
            others.append(other)
        return others

    def _items(self) -> tuple[Body, ir.Value, ir.Value]:
        body, axis = Body(self._kernel.top), ir.Value("t", Type.I64)
        item = ir.Index(0, ((axis, 1),))
        lane = body.let("lane", ir.Remainder(item, WARP))
        self._opened(body, body.let("warp", ir.Quotient(item, WARP)))
        return body, axis, lane

    def _close(self, body: Body, axis: ir.Value) -> None:
        items = self._lines.count * self._parts * WARP
        self._kernel.top.add(ParallelFor(axis, items, tuple(body.statements), group=WARP))
