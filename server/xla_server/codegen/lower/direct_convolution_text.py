"""Convolution without patches: tiles of results kept in registers, over the input where it is.

Arrays are in the order batch, spatial dimensions, features, and the kernel ends in its output
features. A row of results, all places of the last spatial dimension, is cut into tiles. Where a
window leaves the input, the part of it that a block of rows needs is laid out with its zeros.

A dilated input is no input with zeros: results that lie as far apart as its elements meet the
same part of the kernel, so each such phase is a convolution of its own, without dilation.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence

from xla_contract.dimension_numbers import WindowDimension
from xla_server.codegen.lower.tail import NO_TAIL, TailText
from xla_server.codegen.routines.product_tiles import LEVELS, VECTORS, lanes, tallest, tile_name

BOX_BYTES = 1 << 18
"""Of the input for a block of rows: a share of a core's cache."""

LONGEST_ROW = 256
"""Bytes of a row of the kernel of which a panel is read where it is."""

TASKS = 8
"""Blocks there are to be at least, where rows allow it."""

TRIPS = 16
"""Into how many trips, each with memory of its own, the blocks are dealt."""


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """One spatial dimension of one phase.

    Results y = 0 .. results - 1 lie at `first` + y * `apart` of the result. They add up products
    for t = 0 .. taps - 1, of the kernel's `tap` + t * `tap_step` with the input's
    `start` + y * `step` + t * `reach`.
    """

    size: int
    whole: int
    results: int
    first: int
    apart: int
    taps: int
    window: int
    tap: int
    tap_step: int
    start: int
    step: int
    reach: int

    def extent(self, results: int) -> int:
        """Neighbouring places of the input that so many results need."""
        return (results - 1) * self.step + (self.taps - 1) * self.reach + 1 if self.taps else 0

    @property
    def is_inside(self) -> bool:
        """Whether no window leaves the input."""
        return self.start >= 0 and self.start + self.extent(self.results) <= self.size


def phases(d: WindowDimension, size: int, results: int) -> list[Line] | None:
    """The phases of a spatial dimension of these sizes; None where they are not regular."""
    dilation = d.base_dilation
    if dilation > 1 and (d.stride > 1 or d.window_dilation > 1):
        return None
    lines = []
    for phase in range(min(dilation, results)):
        first_tap = (d.padding_low - phase) % dilation
        taps = max(0, -(-(d.size - first_tap) // dilation))
        tap, tap_step = first_tap, dilation
        if d.window_reversal:
            tap, tap_step = d.size - 1 - tap, -tap_step
        lines.append(
            Line(
                size,
                results,
                -(-(results - phase) // dilation),
                phase,
                dilation,
                taps,
                d.size,
                tap,
                tap_step,
                (phase + first_tap - d.padding_low) // dilation,
                d.stride,
                d.window_dilation if dilation == 1 else 1,
            )
        )
    return lines


@dataclasses.dataclass(frozen=True, slots=True)
class Phase:
    """A convolution of `batch` images. `inputs` and `outputs` are the features of a group.

    `shared` are the places of a block where phases have their blocks in common.
    """

    kind: str
    width: int
    batch: int
    groups: int
    inputs: int
    outputs: int
    lines: tuple[Line, ...]
    shared: int | None = None

    @property
    def depth(self) -> int:
        """Rows of the whole kernel as a matrix."""
        return self.inputs * math.prod(line.window for line in self.lines)

    @property
    def is_packed(self) -> bool:
        """Whether the kernel's rows are so long that its panels are laid out one by one."""
        return self.outputs * self.groups * self.width > LONGEST_ROW

    @property
    def pitch(self) -> int:
        """Input features of a place."""
        return self.inputs * self.groups

    @property
    def is_inside(self) -> bool:
        """Whether the input can be read where it is."""
        return all(line.is_inside for line in self.lines) or not all(
            line.taps for line in self.lines
        )

    @property
    def block(self) -> int:
        """Places of the first spatial dimension in a block."""
        if self.shared is not None:
            return self.shared
        first = self.lines[0]
        row = self.width * self.pitch
        row *= math.prod(line.extent(line.results) for line in self.lines[1:])
        places = max(1, BOX_BYTES // max(row, 1) - (first.taps - 1) * first.reach)
        fewest = -(-TASKS // self.batch)
        blocks = max(-(-first.results // -(-places // first.step)), min(fewest, first.results))
        return -(-first.results // blocks)

    @property
    def box(self) -> list[int]:
        """Sizes of what a block needs of the input's spatial dimensions."""
        first, *others = self.lines
        return [first.extent(self.block), *(line.extent(line.results) for line in others)]

    @property
    def tasks(self) -> int:
        """Blocks of all images."""
        return self.batch * -(-self.lines[0].results // self.block)

    @property
    def trips(self) -> int:
        """Of the kernel."""
        return min(self.tasks, TRIPS)

    @property
    def room(self) -> int:
        """Elements of memory for a trip's box."""
        return 0 if self.is_inside else math.prod(self.box) * self.pitch

    @property
    def work(self) -> int:
        """Products of a trip."""
        results = self.batch * math.prod(line.results for line in self.lines)
        depth = self.inputs * math.prod(line.taps for line in self.lines)
        return -(-results * max(depth, 1) * self.outputs * self.groups // self.trips)


def all_phases(
    window: Sequence[WindowDimension], sizes: Sequence[int], results: Sequence[int]
) -> list[tuple[Line, ...]] | None:
    """The phases of all dimensions together; None where one of them is not regular."""
    each = [phases(*given) for given in zip(window, sizes, results, strict=True)]
    if any(lines is None for lines in each):
        return None
    return list(itertools.product(*(lines or [] for lines in each)))


def tiles(size: int) -> list[tuple[int, int]]:
    """(first place, places) of runs of tiles of one height: as few and as even as can be."""
    count = -(-size // tallest())
    tall, rest = -(-size // count), 0
    while count * tall - rest > size:
        rest += 1
    runs = [(0, tall)] * (count > rest) + [((count - rest) * tall, tall - 1)] * (rest > 0)
    return [run for run in runs if run[1]]


def joined(phases: Sequence[Phase]) -> list[Phase]:
    """Phases with their blocks in common: together these are whole rows of the result."""
    block = min(phase.block for phase in phases)
    return [dataclasses.replace(phase, shared=block) for phase in phases]


def scratch(phases: Sequence[Phase]) -> int:
    """Elements of memory for the boxes of all trips."""
    return phases[0].trips * max(phase.room for phase in phases)


def do_overlap(phases: Sequence[Phase]) -> bool:
    """Whether blocks do some of each other's results once more."""
    return len(phases[0].lines) == 1 and any(
        phase.lines[0].results % phases[0].block for phase in phases
    )


def phases_source(
    phases: Sequence[Phase], places: Sequence[int] = (0, 1, 2, 3), tail: TailText = NO_TAIL
) -> str:
    """The text of the kernel of all phases, with what is done to each block's results.

    `places` are the numbers of input, kernel, result and memory for boxes among its arguments.
    """
    # No other phase has more results than the first.
    lead = phases[0]
    blocks = -(-lead.lines[0].results // lead.block)
    room = max(phase.room for phase in phases)
    share = [f"whole_div(mul({trip}, {lead.tasks}), {lead.trips})" for trip in ("t", "add(t, 1)")]
    lines = [
        f"source = peek_i64(buffers, {places[0]})",
        f"weights = peek_i64(buffers, {places[1]})",
        f"result = peek_i64(buffers, {places[2]})",
        *([f"scratch = peek_i64(buffers, {places[3]})"] if room else []),
        *tail.first,
        "for t in range(start, stop):",
        f"    for task in range({', '.join(share)}):",
    ]
    body = [
        f"block = whole_mod(task, {blocks}) * {lead.block}",
        f"image = whole_div(task, {blocks})",
        *([f"box = scratch + t * {room * lead.width}"] if room else []),
    ]
    for phase in phases:
        # The last block of a single dimension begins earlier, and does some results once more.
        last = f"minimum(block, {phase.lines[0].results - phase.block})"
        body += [f"row = {last if len(phase.lines) == 1 else 'block'}"]
        body += [*_input_lines(phase), *_panel_lines(phase)]
    body += _tail_lines(lead, tail) if tail.loops else []
    text = ["def kernel(buffers, start, stop):"]
    text += [f"    {line}" for line in lines] + [f"            {line}" for line in body]
    return tail.constants + "\n".join(text) + "\n"


def _tail_lines(phase: Phase, tail: TailText) -> list[str]:
    """What is done to a block, which is rows of the result."""
    first, *others = phase.lines
    row = math.prod(line.whole for line in others)
    end = f"minimum((block + {phase.block}) * {first.apart}, {first.whole})"
    return [
        f"first_row = (image * {first.whole} + block * {first.apart}) * {row}",
        f"last_row = (image * {first.whole} + {end}) * {row}",
        "first_column = 0",
        f"last_column = {phase.outputs * phase.groups}",
        *tail.loops,
    ]


def _input_lines(phase: Phase) -> list[str]:
    """`base`, the address of what the block's first result begins with."""
    image = math.prod(line.size for line in phase.lines) * phase.pitch * phase.width
    strides = _strides([line.size for line in phase.lines], phase.pitch * phase.width)
    first = phase.lines[0]
    if phase.is_inside:
        start = sum(line.start * stride for line, stride in zip(phase.lines, strides, strict=True))
        return [
            f"base = source + image * {image} + row * {first.step * strides[0]} + {start}",
        ]
    lines = ["place = box", f"image_at = source + image * {image}"]
    depth = 0
    *outer, last = range(len(phase.lines))
    for d in outer:
        line = phase.lines[d]
        pad = "    " * depth
        offset = f"{line.start} + e{d}" + (f" + row * {line.step}" if d == 0 else "")
        lines += [
            f"{pad}for e{d} in range(0, {phase.box[d]}):",
            f"{pad}    p{d} = {offset}",
            f"{pad}    q{d} = minimum(maximum(p{d}, 0), {line.size - 1})",
        ]
        depth += 1
    pad = "    " * depth
    line = phase.lines[last]
    unit = phase.pitch * phase.width
    offset = str(line.start) + (f" + row * {line.step}" if last == 0 else "")
    # Rows outside of the input have nothing but zeros on their left.
    lines += [
        f"{pad}low = maximum(minimum(0 - ({offset}), {phase.box[last]}), 0)",
        f"{pad}high = maximum(minimum({line.size} - ({offset}), {phase.box[last]}), low)",
    ]
    for d in outer:
        lines += [
            f"{pad}{name} = select(eq(p{d}, q{d}), {name}, {phase.box[last]})"
            for name in ("low", "high")
        ]
    moved = " + ".join([f"q{d} * {strides[d]}" for d in outer] or ["0"])
    lines += [
        f"{pad}clear_bytes(place, low * {unit})",
        f"{pad}copy_bytes(place + low * {unit}, "
        f"image_at + {moved} + ({offset} + low) * {unit}, (high - low) * {unit})",
        f"{pad}clear_bytes(place + high * {unit}, ({phase.box[last]} - high) * {unit})",
        f"{pad}place = place + {phase.box[last] * unit}",
        "base = box",
    ]
    return lines


def _strides(sizes: Sequence[int], unit: int) -> list[int]:
    return [unit * math.prod(sizes[d + 1 :]) for d in range(len(sizes))]


def panels(phase: Phase) -> list[tuple[int, int, int]]:
    """(first column, columns, count) of runs of equal panels of a group's output features."""
    width = VECTORS * lanes(phase.kind)
    full, rest = divmod(phase.outputs, width)
    runs = [(0, width, full)] if full else []
    return runs + ([(full * width, rest, 1)] if rest else [])


def packing_source(phase: Phase) -> str:
    """The text of a kernel over the rows of another's weights that lays out its panels."""
    kind, features = phase.kind, phase.outputs * phase.groups
    lines = ["source = peek_i64(buffers, 0)", "target = peek_i64(buffers, 1)"]
    lines += ["for d in range(start, stop):", f"    for group in range(0, {phase.groups}):"]
    for column, columns, count in panels(phase):
        start = f"group * {phase.depth * phase.outputs} + {column * phase.depth} + d * {columns}"
        lines += [
            f"        for panel in range(0, {count}):",
            f"            to = {start} + panel * {columns * phase.depth}",
            f"            at = d * {features} + group * {phase.outputs} + {column}",
            f"            at = at + panel * {columns}",
            f"            for c in range(0, {columns}):",
            f"                store_{kind}(target, to + c, load_{kind}(source, at + c))",
        ]
    return "\n".join(["def kernel(buffers, start, stop):", *(f"    {x}" for x in lines)]) + "\n"


def _panel_lines(phase: Phase) -> list[str]:
    """All tiles of a block, for one panel of the kernel after the other, group by group."""
    width, features = phase.width, phase.outputs * phase.groups
    extents = phase.box if not phase.is_inside else [line.size for line in phase.lines]
    places = _strides(extents, phase.pitch * width)
    stored = _strides([line.whole for line in phase.lines], features * width)
    image = stored[0] * phase.lines[0].whole
    first = sum(line.first * step for line, step in zip(phase.lines, stored, strict=True))
    row_bytes = phase.lines[0].apart * stored[0]
    lines = [f"into = result + image * {image} + {first} + row * {row_bytes}"]
    for column, columns, count in panels(phase):
        row = (columns if phase.is_packed else features) * width
        numbers, tap = _loops(phase, places, row)
        if phase.is_packed:
            of_group, of_panel = phase.depth * phase.outputs * width, phase.depth * columns * width
            start = column * phase.depth * width
        else:
            of_group, of_panel, start = phase.outputs * width, columns * width, column * width
        lines += [
            f"for group in range(0, {phase.groups}):",
            f"    left = base + group * {phase.inputs * width}",
            f"    for panel in range(0, {count}):",
            f"        factors = weights + group * {of_group} + panel * {of_panel} + {start + tap}",
            f"        to = into + group * {phase.outputs * width} + {column * width}",
            f"        to = to + panel * {columns * width}",
        ]
        tile_lines = _tile_lines(phase, places, stored, columns, numbers)
        lines += [f"        {line}" for line in tile_lines]
    return lines


def _loops(phase: Phase, places: Sequence[int], row: int) -> tuple[str, int]:
    """What tiles are told of the loops of their sums, and where on the right these begin."""
    taps = _strides([line.window for line in phase.lines], phase.inputs * row)
    loops = [
        (line.taps, line.reach * place, line.tap_step * step)
        for line, place, step in zip(phase.lines, places, taps, strict=True)
    ]
    loops = _joined([*loops, (phase.inputs, phase.width, row)])
    tap = sum(line.tap * step for line, step in zip(phase.lines, taps, strict=True))
    return ", ".join(str(number) for loop in loops for number in loop), tap


def _tile_lines(
    phase: Phase, places: Sequence[int], stored: Sequence[int], columns: int, numbers: str
) -> list[str]:
    """The tiles of a block and a panel."""
    *outer, last = phase.lines
    lines: list[str] = []
    for number, line in enumerate(outer):
        pad = "    " * number
        rest = f"minimum({phase.block}, {line.results} - row)"
        lines += [
            f"{pad}for y{number} in range(0, {line.results if number else rest}):",
            f"{pad}    left{number} = {_named('left', number)} + "
            f"y{number} * {line.step * places[number]}",
            f"{pad}    to{number} = {_named('to', number)} + "
            f"y{number} * {line.apart * stored[number]}",
        ]
    pad, left, to = "    " * len(outer), _named("left", len(outer)), _named("to", len(outer))
    size = last.results if outer else phase.block
    step, ahead = last.step * places[-1], last.apart * stored[-1]
    for (at, rows), (end, _) in itertools.pairwise([*tiles(size), (size, 0)]):
        lines += [
            f"{pad}for x in range(0, {(end - at) // rows}):",
            f"{pad}    {tile_name(phase.kind, rows, columns)}("
            f"{left} + {at * step} + x * {rows * step}, factors, "
            f"{to} + {at * ahead} + x * {rows * ahead}, {step}, {ahead}, {columns}, {numbers})",
        ]
    return lines


def _named(name: str, level: int) -> str:
    return f"{name}{level - 1}" if level else name


def _joined(loops: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Loops that move on as one made one, and as many as tiles have."""
    joined: list[tuple[int, int, int]] = []
    for trips, left, right in loops:
        if joined:
            before = joined[-1]
            if before[1:] == (trips * left, trips * right):
                joined[-1] = (before[0] * trips, left, right)
                continue
        joined.append((trips, left, right))
    return [(1, 0, 0)] * (LEVELS - len(joined)) + joined
