"""Loop nests of reduce-windows: tiles of elements on the stack, combined along one axis at a time.

A work item loads or computes the elements under a block of windows once, with the neutral element
as padding. Vectorised loops over neighbouring positions then combine them without tests, and the
last of these loops computes the stores from the windows' results.
"""

import dataclasses
import math
from collections.abc import Sequence

from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Loop
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.schedules.builders.launches.scheduled import ScheduledKernel
from xla_server.codegen.schedules.builders.loop_builder import LoopBuilder, Nest, close
from xla_server.codegen.schedules.nests.window_graph import (
    AxisFinder,
    MakeBy,
    OtherWindowsError,
    Walk,
    Windowed,
    WindowGraph,
    traced,
)
from xla_server.codegen.schedules.nests.window_levels import Level
from xla_server.codegen.schedules.nests.window_tiles import (
    AxisPass,
    WindowTile,
    is_flat_pass,
    tile_of,
)
from xla_server.codegen.trace.graph import Immediate
from xla_server.fusion.analysis.windows import is_short_window
from xla_server.passes.framework.queries import IDEMPOTENT, combiner
from xla_server.target.target import Target


def window_kernel(
    dimensions: Sequence[int], make: MakeBy, target: Target
) -> ScheduledKernel | None:
    """Return the kernel that combines windows in tiles; None if that is not its form.

    All windows must be of one form, read where the results of the kernel are, and be combined by an
    operation whose order is free.
    """
    try:
        finder = AxisFinder(dimensions, make)
    except OtherWindowsError:
        return None
    if not any(axis.window.size > 1 for axis in finder.axes):
        return None
    first = finder.windows[0]
    width, tuned = Type(first.type).byte_size, target.tuning.loops.windows
    is_idempotent = combiner(first.instruction.called[0]) in IDEMPOTENT
    tile = tile_of(finder.axes, width, tuned, is_idempotent=is_idempotent)
    if tile is None:
        return None
    # Few loads without tests are as fast without a tile.
    is_short = is_short_window([axis.window.size for axis in finder.axes], target.capability)
    if is_short and not any(axis.is_clipped for axis in tile.axes):
        return None
    results, index = finder.results(tile.axes)
    elements, positions = finder.elements(tile.axes)
    graph = traced(make, [walk.loop for walk in results], index, positions)
    return _WindowBuilder(graph, tile, results, elements, target).built()


@dataclasses.dataclass(frozen=True, slots=True)
class _Values:
    """Values on the stack, `pitches` of them along the axes of a tile."""

    memory: ir.StackArray
    type: Type
    pitches: tuple[int, ...]

    def stride(self, axis: int) -> int:
        """Return the stride along an axis, in elements."""
        return math.prod(self.pitches[axis + 1 :])


class _Loops:
    """Builder of nested loops, from `body` inward."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self._opened: list[Loop] = []

    def open(
        self,
        name: str,
        high: int | ir.Expression,
        low: int | ir.Expression = 0,
        iterations: float | None = None,
    ) -> Loop:
        """Begin a loop."""
        loop = Loop(self.body, name, high, low, iterations=iterations)
        self.body = loop
        self._opened.append(loop)
        return loop

    def close(self) -> None:
        """Append the loops to the body around them."""
        close(self._opened)


_Taps = Sequence[tuple[_Values, int]]
"""Values that are combined, and the distance of each from the index of the result."""


class _WindowBuilder(LoopBuilder):
    def __init__(
        self,
        graph: WindowGraph,
        tile: WindowTile,
        results: Sequence[Walk],
        elements: Sequence[Walk],
        target: Target,
    ) -> None:
        super().__init__(Nest((), graph.stores, target))
        self._graph, self._tile = graph, tile
        self._results_at, self._elements = results, elements
        self._lows: list[ir.Expression] = []
        self._origin_of: list[ir.Expression] = []

    def built(self) -> ScheduledKernel:
        """Return the kernel."""
        body, axis = Body(self._top), self._axis("t")
        self._find_tile(axis, body)
        combined = [
            self._combine(window, self._fill(window, body), body) for window in self._graph.windows
        ]
        self._finish(combined, body)
        items = self._tile.count
        self._close_part(body, axis if items > 1 else None, items)
        return self._scheduled()

    def _find_tile(self, item: ir.Value, body: Body) -> None:
        """Bind the first position of the tile along each axis, and the first element there."""
        rest, left = item, self._tile.count
        for axis in reversed(self._tile.axes):
            low: ir.Expression = ir.Index(0)
            if axis.blocks > 1:
                left //= axis.blocks
                block, name = rest, self._names("i")
                if left > 1:
                    names = self._names("t"), self._names("t")
                    block = body.let(names[0], ir.integer_op("whole_mod", rest, axis.blocks))
                    rest = body.let(names[1], ir.integer_op("whole_div", rest, axis.blocks))
                last = axis.axis.size - axis.length
                first = ir.times(block, axis.length)
                low = body.let(name, ir.integer_op("minimum", first, last))
            self._lows.insert(0, low)
            window = axis.axis.window
            origin = ir.plus(ir.times(low, window.stride), -window.padding_low)
            self._origin_of.insert(0, self._bound(origin, body))

    def _array(self, pitches: Sequence[int], type: str) -> _Values:
        byte_size = -(-math.prod(pitches) * Type(type).byte_size // 64) * 64
        array = self._stack_array(self._names("p"), byte_size)
        return _Values(array, Type(type), tuple(pitches))

    def _fill(self, window: Windowed, body: Body) -> _Values:
        """Build the loops that load the elements under the windows of the tile."""
        values = self._array([axis.pitch for axis in self._tile.axes], window.type)
        # Values of the loops of another window are out of scope here.
        self._values = {node: v for node, v in self._values.items() if not node.variables}
        self._fill_neutral(values, window, body)
        loops = _Loops(body)
        index: ir.Expression = ir.Index(0)
        for walk in self._elements:
            window_form = self._tile.axes[walk.axis].axis.window
            is_by_phase = window_form.stride > 1 and window_form.base_dilation == 1
            if is_by_phase and walk is self._elements[-1]:
                at = self._open_phases(walk, loops)
            else:
                at = self._open_elements(walk, loops)
            index = ir.plus(index, ir.times(at, values.stride(walk.last)))
        value = self._value(window.element)
        loops.body.store(values.memory, values.type, index, value)
        loops.close()
        return values

    def _fill_neutral(self, values: _Values, window: Windowed, body: Body) -> None:
        """Set the tile to the neutral element where it reaches beyond the operand."""
        clipped = [n for n, axis in enumerate(self._tile.axes) if axis.is_clipped]
        if not clipped:
            return
        total = math.prod(values.pitches)
        count: ir.Expression = ir.Index(total)
        axes = [self._tile.axes[number] for number in clipped]
        if all(axis.blocks > 1 and axis.axis.window.base_dilation == 1 for axis in axes):
            tests: list[ir.Expression] = []
            for number, axis in zip(clipped, axes, strict=True):
                origin = self._origin_of[number]
                end = ir.plus(origin, axis.spacing.span)
                tests += [ir.condition("ge", origin, 0), ir.condition("le", end, axis.axis.base)]
            count = self._bound(
                ir.Apply("select", (ir.all_of(tests), ir.Index(0), ir.Index(total)), Type.I64), body
            )
        with Loop(body, self._names("i"), count, iterations=total) as loop:
            neutral = self._value(window.neutral)
            loop.store(values.memory, values.type, loop.axis, neutral)

    def _bounds(self, number: int, body: Body) -> tuple[ir.Expression, ir.Expression]:
        """Return the first element of the tile along an axis, and the one behind the last."""
        axis, origin = self._tile.axes[number], self._origin_of[number]
        step, base = axis.axis.window.base_dilation, axis.axis.base
        end = ir.plus(origin, axis.spacing.span)
        if step == 1:
            low: ir.Expression = ir.integer_op("maximum", origin, 0)
        else:
            low, end = (
                ir.integer_op("whole_div", ir.integer_op("maximum", ir.plus(at, step - 1), 0), step)
                for at in (origin, end)
            )
        high = ir.integer_op("minimum", end, base)
        return self._bound(low, body), self._bound(high, body)

    def _open_elements(self, walk: Walk, loops: _Loops) -> ir.Expression:
        """Begin a loop over the elements along an axis; return their index along it."""
        axis, outside = self._tile.axes[walk.axis], loops.body
        first = self._bound(ir.times(self._origin_of[walk.axis], walk.inner), outside)
        name, own = self._names("i"), self._names("i")
        at: ir.Expression
        if axis.is_clipped:
            low, high = (
                self._bound(ir.times(end, walk.inner), outside)
                for end in self._bounds(walk.axis, outside)
            )
            loop = loops.open(name, high, low, self._iterations(walk))
            body: Body = loop
            element: ir.Expression = loop.axis
            dilated = ir.times(element, axis.axis.window.base_dilation)
            at = body.let(own, ir.integer_op("sub", dilated, first))
        else:
            at, body = self._open_count(own, axis.spacing.span * walk.inner, loops)
            element = body.let(name, ir.plus(first, at))
        self._indices[walk.loop], self._bodies[walk.loop] = element, body
        spacing = axis.spacing
        if spacing.stride == 1:
            return at
        phase = ir.times(ir.integer_op("whole_mod", at, spacing.stride), spacing.row)
        step = ir.integer_op("whole_div", at, spacing.stride)
        return self._bound(ir.integer_op("add", phase, step), body)

    def _open_count(self, name: str, count: int, loops: _Loops) -> tuple[ir.Expression, Body]:
        """Begin a loop of a known length; return its variable. One iteration needs no loop."""
        if count == 1:
            return ir.Index(0), loops.body
        loop = loops.open(name, count)
        return loop.axis, loop

    def _open_phases(self, walk: Walk, loops: _Loops) -> ir.Expression:
        """Begin a loop over the phases of the innermost axis, and one over the elements of each."""
        axis, origin = self._tile.axes[walk.axis], self._origin_of[walk.axis]
        spacing, stride = axis.spacing, axis.spacing.stride
        ends: list[ir.Expression] = [ir.Index(0), ir.Index(spacing.span)]
        if axis.is_clipped:
            ends = [
                self._bound(
                    ir.integer_op("maximum", ir.integer_op("sub", end, origin), 0), loops.body
                )
                for end in self._bounds(walk.axis, loops.body)
            ]
        outer = loops.open(self._names("i"), stride)
        # Number of elements of this phase before either end.
        low, high = (
            self._bound(
                ir.integer_op(
                    "whole_div", ir.integer_op("sub", ir.plus(end, stride - 1), outer.axis), stride
                ),
                outer,
            )
            for end in ends
        )
        names = self._names("i"), self._names("i")
        inner = loops.open(names[0], high, low, self._iterations(walk) / stride)
        at = ir.plus(ir.times(inner.axis, stride), outer.axis)
        self._indices[walk.loop] = inner.let(names[1], ir.plus(at, origin))
        self._bodies[walk.loop] = inner
        return ir.plus(ir.times(outer.axis, spacing.row), inner.axis)

    def _iterations(self, walk: Walk) -> float:
        return self._tile.axes[walk.axis].elements * walk.inner

    def _combine(self, window: Windowed, values: _Values, body: Body) -> _Taps:
        """Build the passes over a tile; return the values that the loops over results combine."""
        taps: _Taps = [(values, 0)]
        for each in self._tile.passes:
            sources = [values]
            is_flat = is_flat_pass(values.pitches, each, self._tuned.windows.short_row)
            for level in each.levels:
                taps = [
                    (sources[tap.source], tap.offset * values.stride(each.axis))
                    for tap in level.taps
                ]
                is_last = each is self._tile.passes[-1] and level is each.levels[-1]
                if is_last and not is_flat:
                    return taps
                pitches = list(values.pitches)
                if not is_flat:
                    pitches[each.axis] = level.length
                made = self._array(pitches, window.type)
                self._build_level(window, each, level, taps, made, body, is_flat=is_flat)
                sources.append(made)
            values = sources[-1]
            taps = [(values, 0)]
        return taps

    def _build_level(
        self,
        window: Windowed,
        each: AxisPass,
        level: Level,
        taps: _Taps,
        made: _Values,
        body: Body,
        *,
        is_flat: bool,
    ) -> None:
        """Build the loops of a level: over rows, and neighbours in these."""
        inner = made.stride(each.axis)
        rows, count = math.prod(made.pitches[: each.axis]), level.length * inner
        if is_flat:
            # Values computed between rows are never read.
            rows, count = 1, math.prod(made.pitches) - max(offset for _, offset in taps)
        loops = _Loops(body)
        row, _ = self._open_count(self._names("i"), rows, loops)
        at, innermost = self._open_count(self._names("i"), count, loops)

        def index(values: _Values, offset: int) -> ir.Expression:
            return ir.plus(ir.plus(ir.times(row, values.pitches[each.axis] * inner), at), offset)

        total = self._tree(window, [(v, index(v, offset)) for v, offset in taps], innermost)
        innermost.store(made.memory, made.type, index(made, 0), total)
        loops.close()

    def _tree(
        self, window: Windowed, read: Sequence[tuple[_Values, ir.Expression]], body: Body
    ) -> ir.Value:
        """Build the combination of values at indices, in a tree."""
        found = [
            body.let(self._names("v"), ir.Load(values.memory, values.type, index))
            for values, index in read
        ]
        while len(found) > 1:
            joined = [
                body.let(
                    self._names("v"),
                    ir.Apply(window.function, (left, right), left.type),
                    self._origin(window),
                )
                for left, right in zip(found[::2], found[1::2], strict=False)
            ]
            found = joined + found[2 * len(joined) :]
        return found[0]

    def _finish(self, combined: Sequence[_Taps], body: Body) -> None:
        """Build the loops over the results."""
        loops, ats = _Loops(body), []
        for walk in self._results_at:
            length = self._tile.axes[walk.axis].length * walk.inner
            at, inner = self._open_count(self._names("i"), length, loops)
            low = ir.times(self._lows[walk.axis], walk.inner)
            self._indices[walk.loop] = self._bound(ir.plus(low, at), inner)
            self._bodies[walk.loop] = inner
            ats.append(at)
        inner = loops.body
        for window, taps in zip(self._graph.windows, combined, strict=True):
            read = []
            for values, offset in taps:
                index: ir.Expression = ir.Index(offset)
                for walk, at in zip(self._results_at, ats, strict=True):
                    index = ir.plus(index, ir.times(at, values.stride(walk.last)))
                read.append((values, index))
            self._values[window] = self._begun(window, self._tree(window, read, inner), inner)
        self._store(self._graph.stores, body)
        loops.close()

    def _begun(self, window: Windowed, total: ir.Value, body: Body) -> ir.Value:
        """Combine the elements of a window with the initial value."""
        initial = window.initial
        if isinstance(initial, Immediate) and initial.constant == window.neutral.constant:
            return total
        name = self._names("v")
        operands = self._value(initial), total
        return body.let(name, ir.Apply(window.function, operands, total.type))

    def _bound(self, expression: ir.Expression, body: Body) -> ir.Expression:
        """Return a value bound to an expression; itself if it is one, or a number."""
        if isinstance(expression, ir.Value) or ir.known(expression) is not None:
            return expression
        return body.let(self._names("i"), expression)
