"""Loop nests of reduce-windows: tiles of elements on the stack, combined along one axis at a time.

A work item loads the elements under a block of windows once, whatever computes them, with the
neutral element where there is padding. Loops over neighbouring positions then combine them, without
tests and in vectors, and what is made of the windows' results is computed in the last of these.
"""

import dataclasses
import math
from collections.abc import Sequence

from xla_server.codegen.loops.block import Block
from xla_server.codegen.loops.kept_rows import width_of
from xla_server.codegen.loops.nest import Nest, Printer, Source
from xla_server.codegen.loops.stored_nodes import all_nodes
from xla_server.codegen.loops.window_graph import (
    AxisFinder,
    MakeBy,
    OtherWindowsError,
    Walk,
    Windowed,
    WindowGraph,
    traced,
)
from xla_server.codegen.loops.window_levels import Level
from xla_server.codegen.loops.window_tiles import (
    AxisPass,
    WindowTile,
    is_flat_pass,
    tile_of,
)
from xla_server.codegen.trace.graph import Literal
from xla_server.fusion.windows import IDEMPOTENT, is_short_window
from xla_server.passes.build import combiner


def window_source(dimensions: Sequence[int], make: MakeBy) -> Source | None:
    """Return the text of a kernel that combines windows in tiles; None if that is not its form.

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
    opcode = combiner(first.instruction.called[0])
    tile = tile_of(finder.axes, width_of(first.type), is_idempotent=opcode in IDEMPOTENT)
    if tile is None:
        return None
    # Few loads, none of which needs a test, are as fast without a tile.
    is_short = is_short_window([axis.window.size for axis in finder.axes])
    if is_short and not any(axis.is_clipped for axis in tile.axes):
        return None
    results, index = finder.results(tile.axes)
    elements, positions = finder.elements(tile.axes)
    graph = traced(make, [walk.loop for walk in results], index, positions)
    return _WindowPrinter(graph, tile, results, elements).printed()


@dataclasses.dataclass(frozen=True, slots=True)
class _Values:
    """Values on the stack, `pitches` of them along the axes of a tile."""

    name: str
    type: str
    pitches: tuple[int, ...]

    def stride(self, axis: int) -> int:
        """Return how far neighbours along an axis are from each other."""
        return math.prod(self.pitches[axis + 1 :])


class _Loops:
    """Loops inside each other while they are written, from `block` inward."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self._headers: list[tuple[Block, str]] = []

    def open(self, header: str, iterations: float) -> Block:
        """Begin a loop by its first line."""
        self.block = Block(self.block.depth + 1, self.block, iterations)
        self._headers.append((self.block, header))
        return self.block

    def close(self) -> None:
        """Write the loops into the block around them."""
        for inner, header in reversed(self._headers):
            assert inner.inside is not None
            inner.inside.add(header)
            inner.inside.lines += inner.lines


_Taps = Sequence[tuple[_Values, int]]
"""Values that are combined, and how far behind the place of the result each is."""


class _WindowPrinter(Printer):
    def __init__(
        self,
        graph: WindowGraph,
        tile: WindowTile,
        results: Sequence[Walk],
        elements: Sequence[Walk],
    ) -> None:
        super().__init__(Nest((), graph.stores))
        self._graph, self._tile = graph, tile
        self._results, self._elements = results, elements
        self._lows: list[str] = []
        self._origins: list[str] = []

    def printed(self) -> Source:
        """The text."""
        self._name_buffers()
        trips, work = self._tile.count, self._tile_work()
        body = self._begin_items(trips, work)
        trip = self._fresh("t")
        self._find_tile(trip, body)
        combined = [
            self._combine(window, self._fill(window, body), body) for window in self._graph.windows
        ]
        self._finish(combined, body)
        return self._source(self._text(trip, trips, body), trips, work)

    def _tile_work(self) -> int:
        """Operations of a tile."""
        tile = self._tile
        elements = len(all_nodes(self._graph.elements)) * math.prod(a.elements for a in tile.axes)
        positions = math.prod(axis.length for axis in tile.axes)
        taps = sum(len(level.taps) for each in tile.passes for level in each.levels)
        results = (taps + len(all_nodes(self._graph.stores))) * positions
        return int(elements) + results

    def _find_tile(self, trip: str, body: Block) -> None:
        """Name the first position of the tile along each axis, and the first element there."""
        rest, left = trip, self._tile.count
        for axis in reversed(self._tile.axes):
            low = "0"
            if axis.blocks > 1:
                left //= axis.blocks
                block, low = rest, self._fresh("i")
                if left > 1:
                    block, following = self._fresh("t"), self._fresh("t")
                    body.add(f"{block} = whole_mod({rest}, {axis.blocks})")
                    body.add(f"{following} = whole_div({rest}, {axis.blocks})")
                    rest = following
                last = axis.axis.size - axis.length
                body.add(f"{low} = minimum({_times(block, axis.length)}, {last})")
            self._lows.insert(0, low)
            window = axis.axis.window
            origin = _plus(_times(low, window.stride), -window.padding_low)
            self._origins.insert(0, self._named(origin, body))

    def _room(self, pitches: Sequence[int], type: str) -> _Values:
        values = _Values(self._fresh("p"), type, tuple(pitches))
        byte_size = -(-math.prod(pitches) * width_of(type) // 64) * 64
        self._top.add(f"{values.name} = room_for({byte_size})")
        return values

    def _fill(self, window: Windowed, body: Block) -> _Values:
        """Write the loops that load the elements under the windows of the tile."""
        values = self._room([axis.pitch for axis in self._tile.axes], window.type)
        # What loops for another window have named is not to be seen here.
        self._names = {node: name for node, name in self._names.items() if not node.variables}
        self._fill_neutral(values, window, body)
        loops, place = _Loops(body), "0"
        for walk in self._elements:
            window_form = self._tile.axes[walk.axis].axis.window
            is_by_phase = window_form.stride > 1 and window_form.base_dilation == 1
            if is_by_phase and walk is self._elements[-1]:
                at = self._open_phases(walk, loops)
            else:
                at = self._open_elements(walk, loops)
            place = _plus(place, _times(at, values.stride(walk.last)))
        value = self._name(window.element)
        loops.block.add(f"keep_{values.type}({values.name}, {place}, {value})")
        loops.close()
        return values

    def _fill_neutral(self, values: _Values, window: Windowed, body: Block) -> None:
        """Set the tile to the neutral element where it reaches beyond the operand."""
        clipped = [n for n, axis in enumerate(self._tile.axes) if axis.is_clipped]
        if not clipped:
            return
        total = math.prod(values.pitches)
        count = str(total)
        axes = [self._tile.axes[number] for number in clipped]
        if all(axis.blocks > 1 and axis.axis.window.base_dilation == 1 for axis in axes):
            tests = []
            for number, axis in zip(clipped, axes, strict=True):
                end = _plus(self._origins[number], axis.spacing.span)
                tests += [f"ge({self._origins[number]}, 0)", f"le({end}, {axis.axis.base})"]
            inside = tests[0]
            for test in tests[1:]:
                inside = f"bit_and({inside}, {test})"
            count = self._named(f"select({inside}, 0, {total})", body)
        at, neutral = self._fresh("i"), self._name(window.neutral)
        body.add(f"for {at} in range({count}):")
        body.add(f"    keep_{values.type}({values.name}, {at}, {neutral})")

    def _bounds(self, number: int, block: Block) -> tuple[str, str]:
        """Return the first element of the tile along an axis, and the one behind the last."""
        axis, origin = self._tile.axes[number], self._origins[number]
        step, base = axis.axis.window.base_dilation, axis.axis.base
        end = _plus(origin, axis.spacing.span)
        if step == 1:
            low, high = f"maximum({origin}, 0)", f"minimum({end}, {base})"
        else:
            low, end = (
                f"whole_div(maximum({_plus(text, step - 1)}, 0), {step})" for text in (origin, end)
            )
            high = f"minimum({end}, {base})"
        return self._named(low, block), self._named(high, block)

    def _open_elements(self, walk: Walk, loops: _Loops) -> str:
        """Begin a loop over the elements along an axis; return their place along it."""
        axis, outside = self._tile.axes[walk.axis], loops.block
        first = self._named(_times(self._origins[walk.axis], walk.inner), outside)
        name, at = self._fresh("i"), self._fresh("i")
        if axis.is_clipped:
            low, high = (
                self._named(_times(end, walk.inner), outside)
                for end in self._bounds(walk.axis, outside)
            )
            block = loops.open(f"for {name} in range({low}, {high}):", self._turns(walk))
            dilated = _times(name, axis.axis.window.base_dilation)
            block.add(f"{at} = sub({dilated}, {first})")
        else:
            count = axis.spacing.span * walk.inner
            at, block = self._open_count(at, count, loops)
            block.add(f"{name} = {_plus(first, at)}")
        self._loop_names[walk.loop], self._blocks[walk.loop] = name, block
        spacing = axis.spacing
        if spacing.stride == 1:
            return at
        phase = _times(f"whole_mod({at}, {spacing.stride})", spacing.row)
        return self._named(f"add({phase}, whole_div({at}, {spacing.stride}))", block)

    def _open_count(self, at: str, count: int, loops: _Loops) -> tuple[str, Block]:
        """Begin a loop of a known length; return its variable. One turn needs no loop."""
        if count == 1:
            return "0", loops.block
        return at, loops.open(f"for {at} in range({count}):", count)

    def _open_phases(self, walk: Walk, loops: _Loops) -> str:
        """Begin a loop over the phases of the innermost axis, and one over the elements of each."""
        axis, origin = self._tile.axes[walk.axis], self._origins[walk.axis]
        spacing, stride = axis.spacing, axis.spacing.stride
        ends = ["0", str(spacing.span)]
        if axis.is_clipped:
            ends = [
                self._named(f"maximum(sub({end}, {origin}), 0)", loops.block)
                for end in self._bounds(walk.axis, loops.block)
            ]
        phase = self._fresh("i")
        outer = loops.open(f"for {phase} in range({stride}):", stride)
        # Elements of this phase that are before either end.
        low, high = (
            self._named(f"whole_div(sub({_plus(end, stride - 1)}, {phase}), {stride})", outer)
            for end in ends
        )
        step, name = self._fresh("i"), self._fresh("i")
        turns = self._turns(walk) / stride
        block = loops.open(f"for {step} in range({low}, {high}):", turns)
        at = _plus(_times(step, stride), phase)
        block.add(f"{name} = {_plus(at, origin)}")
        self._loop_names[walk.loop], self._blocks[walk.loop] = name, block
        return _plus(_times(phase, spacing.row), step)

    def _turns(self, walk: Walk) -> float:
        return self._tile.axes[walk.axis].elements * walk.inner

    def _combine(self, window: Windowed, values: _Values, body: Block) -> _Taps:
        """Write the passes over a tile; return what the loops over results have to combine."""
        taps: _Taps = [(values, 0)]
        for each in self._tile.passes:
            sources = [values]
            is_flat = is_flat_pass(values.pitches, each)
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
                made = self._room(pitches, window.type)
                self._write_level(window, each, level, taps, made, body, is_flat=is_flat)
                sources.append(made)
            values = sources[-1]
            taps = [(values, 0)]
        return taps

    def _write_level(
        self,
        window: Windowed,
        each: AxisPass,
        level: Level,
        taps: _Taps,
        made: _Values,
        body: Block,
        *,
        is_flat: bool,
    ) -> None:
        """Write the loops of a level: over rows, and neighbours in these."""
        inner = made.stride(each.axis)
        rows, count = math.prod(made.pitches[: each.axis]), level.length * inner
        if is_flat:
            # What is computed between rows is read by nobody.
            rows, count = 1, math.prod(made.pitches) - max(offset for _, offset in taps)
        loops = _Loops(body)
        row, _ = self._open_count(self._fresh("i"), rows, loops)
        at, block = self._open_count(self._fresh("i"), count, loops)

        def place(values: _Values, offset: int) -> str:
            return _plus(_plus(_times(row, values.pitches[each.axis] * inner), at), offset)

        total = self._tree(window, [(v, place(v, offset)) for v, offset in taps], block)
        block.add(f"keep_{made.type}({made.name}, {place(made, 0)}, {total})")
        loops.close()

    def _tree(self, window: Windowed, read: Sequence[tuple[_Values, str]], block: Block) -> str:
        """Write the combination of values at places, in a tree."""
        names = []
        for values, place in read:
            names.append(self._fresh("v"))
            block.add(f"{names[-1]} = kept_{values.type}({values.name}, {place})")
        while len(names) > 1:
            joined = []
            for left, right in zip(names[::2], names[1::2], strict=False):
                joined.append(self._fresh("v"))
                block.add(f"{joined[-1]} = {window.function}({left}, {right})")
                self._evaluated.add(window, block)
            names = joined + names[2 * len(joined) :]
        return names[0]

    def _finish(self, combined: Sequence[_Taps], body: Block) -> None:
        """Write the loops over the results."""
        loops, ats = _Loops(body), []
        for walk in self._results:
            length = self._tile.axes[walk.axis].length * walk.inner
            at, block = self._open_count(self._fresh("i"), length, loops)
            low = _times(self._lows[walk.axis], walk.inner)
            self._loop_names[walk.loop] = self._named(_plus(low, at), block)
            self._blocks[walk.loop] = block
            ats.append(at)
        block = loops.block
        for window, taps in zip(self._graph.windows, combined, strict=True):
            read = []
            for values, offset in taps:
                place = str(offset)
                for walk, at in zip(self._results, ats, strict=True):
                    place = _plus(place, _times(at, values.stride(walk.last)))
                read.append((values, place))
            self._names[window] = self._begun(window, self._tree(window, read, block), block)
        self._store(self._graph.stores, body)
        loops.close()

    def _begun(self, window: Windowed, total: str, block: Block) -> str:
        """Combine the elements of a window with the initial value."""
        initial = window.initial
        if isinstance(initial, Literal) and initial.expression == window.neutral.expression:
            return total
        name = self._fresh("v")
        block.add(f"{name} = {window.function}({self._name(initial)}, {total})")
        return name

    def _named(self, text: str, block: Block) -> str:
        """Return a name for an expression, or the expression if it is a name or a number."""
        if "(" not in text:
            return text
        name = self._fresh("i")
        block.add(f"{name} = {text}")
        return name


def _plus(left: str, right: str | int) -> str:
    """Return the text of a sum."""
    numbers = [text for text in (left, right) if _is_number(text)]
    if len(numbers) == 2:
        return str(int(left) + int(right))
    if "0" in map(str, numbers):
        return str(right) if left == "0" else left
    return f"add({left}, {right})"


def _times(text: str, factor: int) -> str:
    """Return the text of a product."""
    if _is_number(text):
        return str(int(text) * factor)
    return text if factor == 1 else f"mul({text}, {factor})"


def _is_number(text: str | int) -> bool:
    return isinstance(text, int) or text.lstrip("-").isdigit()
