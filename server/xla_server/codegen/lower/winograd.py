"""Winograd's convolution F(4x4, 3x3): 16 results from 36 products instead of 144.

A tile of 6x6 inputs and the kernel are taken to the values of polynomials at five points and
infinity, multiplied there feature by feature, and taken back. A finite f32 result is off by at
most 2^-16 of the largest input times the sum of the kernel's magnitudes; tiles of registers are
nearer by about four bits.

What is infinite, no number or overflows at one point spoils results that do not read it, so tiles
with such a result are summed up once more, product by product.
"""

import dataclasses
from collections.abc import Sequence

from xla_server.codegen.lower.convolution_phases import Phase, panels
from xla_server.codegen.lower.epilogue_text import NO_EPILOGUE_TEXT, EpilogueText
from xla_server.codegen.routines.product_tiles import tallest, tile_name
from xla_server.codegen.routines.winograd_block import panel_width
from xla_server.codegen.routines.winograd_transforms import RESULTS, SIDE, TAPS

FEWEST_FEATURES = 16
"""Of the input and the result, from which transforms cost less than they save."""

SMALLEST = 6
"""Results along a dimension, from which few of a tile's are thrown away."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tiled:
    """A phase cut into tiles of results, and blocks of tiles."""

    phase: Phase

    @property
    def grid(self) -> tuple[int, int]:
        """Tiles along both dimensions."""
        down, across = (-(-line.results // RESULTS) for line in self.phase.lines)
        return down, across

    @property
    def tiles(self) -> int:
        """Tiles of all images."""
        down, across = self.grid
        return self.phase.batch * down * across

    @property
    def runs(self) -> int:
        """Runs of tiles done together: so many share a reading of the kernel."""
        return min(2, -(-self.tiles // tallest(self.phase.machine)))

    @property
    def rows(self) -> int:
        """Tiles of a run."""
        return min(tallest(self.phase.machine), -(-self.tiles // self.runs))

    @property
    def block(self) -> int:
        """Tiles done together, at most."""
        return self.runs * self.rows

    @property
    def blocks(self) -> int:
        """Blocks of tiles."""
        return -(-self.tiles // self.block)

    @property
    def trips(self) -> int:
        """Of the kernel."""
        return min(self.blocks, self.phase.tuning.work_items)

    @property
    def parts(self) -> tuple[int, int, int]:
        """Elements of a trip's memory: transformed inputs, products, and a tile by itself."""
        inputs, outputs = self.phase.inputs, self.phase.outputs
        square = SIDE * SIDE
        return (
            square * self.block * inputs,
            square * self.block * outputs,
            square * max(inputs, outputs),
        )

    @property
    def scratch(self) -> int:
        """Elements of memory for all trips."""
        return self.trips * sum(self.parts)

    @property
    def work(self) -> int:
        """Products of a trip, about."""
        of_tile = SIDE * SIDE * self.phase.inputs * (self.phase.outputs + 8)
        return -(-self.tiles * of_tile // self.trips)


def fits(phases: Sequence[Phase]) -> bool:
    """Whether a convolution is one of those that tiles of 6x6 inputs are for."""
    if len(phases) != 1 or phases[0].kind != "f32" or phases[0].groups > 1:
        return False
    (phase,) = phases
    return (
        len(phase.lines) == 2
        and all(
            (line.taps, line.step, line.reach, line.apart) == (TAPS, 1, 1, 1)
            and line.results >= SMALLEST
            for line in phase.lines
        )
        and min(phase.inputs, phase.outputs) >= FEWEST_FEATURES
    )


def kernel_source(phase: Phase) -> str:
    """The kernel that transforms weights; a trip is an input feature."""
    square = 4 * phase.inputs * phase.outputs
    down, across = phase.lines
    first = (down.tap * TAPS + across.tap) * square
    steps = f"{down.tap_step * TAPS * square}, {across.tap_step * square}"
    lines = [
        "source = peek_i64(buffers, 0)",
        "target = peek_i64(buffers, 1)",
        "for i in range(start, stop):",
    ]
    for column, columns, count in panels(phase):
        lines += [
            f"    read = source + {first + 4 * column} + i * {4 * phase.outputs}",
            f"    written = target + {4 * column * phase.inputs} + i * {4 * columns}",
            f"    for panel in range(0, {count}):",
            f"        winograd_kernel(read + panel * {4 * columns}, {steps}, "
            f"written + panel * {4 * columns * phase.inputs}, {SIDE * square}, {square}, "
            f"{columns})",
        ]
    return _kernel(lines)


def tiled_source(
    tiled: Tiled,
    places: Sequence[int] = (0, 1, 2, 3, 4),
    tail: EpilogueText = NO_EPILOGUE_TEXT,
    exact: Sequence[str] = (),
) -> str:
    """The kernel's text, with what is done to each tile's results.

    `places` are the numbers of input, transformed weights, weights, result and memory among its
    arguments. `exact` sums rows of the result again, which are those of first_row to last_row.
    """
    share = [f"whole_div(mul({t}, {tiled.blocks}), {tiled.trips})" for t in ("t", "add(t, 1)")]
    names = ("source", "weights", "taps", "result", "scratch")
    numbers = ", ".join(("begin", "end", *names[:-1], "room", *map(str, _numbers(tiled))))
    return tail.constants + _kernel(
        [
            *(f"{name} = peek_i64(buffers, {n})" for name, n in zip(names, places, strict=True)),
            *tail.first,
            "for t in range(start, stop):",
            f"    room = scratch + t * {4 * sum(tiled.parts)}",
            f"    for block in range({', '.join(share)}):",
            f"        begin = block * {tiled.block}",
            f"        end = minimum(begin + {tiled.block}, {tiled.tiles})",
            f"        winograd_block({numbers})",
            *(f"        {line}" for line in _row_lines(tiled, tail, exact)),
        ]
    )


def _row_lines(tiled: Tiled, tail: EpilogueText, exact: Sequence[str]) -> list[str]:
    """What is done to the results of a block, row by row of each tile."""
    if not tail.loops and not exact:
        return []
    tiles_down, tiles_across = tiled.grid
    down, across = tiled.phase.lines
    call = [line.replace("weights", "taps", 1) for line in exact]
    at_edge = f"y == 0 or x == 0 or y + {RESULTS + 2} > {down.results}"
    at_edge = f"{at_edge} or x + {RESULTS + 2} > {across.results}"
    return [
        *(["first_column = 0", f"last_column = {tiled.phase.outputs}"] if tail.loops else []),
        "for number in range(begin, end):",
        f"    x = whole_mod(number, {tiles_across}) * {RESULTS}",
        f"    above = whole_div(number, {tiles_across})",
        f"    y = whole_mod(above, {tiles_down}) * {RESULTS}",
        f"    above = whole_div(above, {tiles_down}) * {down.results} + y",
        f"    for a in range(0, minimum({down.results} - y, {RESULTS})):",
        f"        first_row = (above + a) * {across.results} + x",
        f"        last_row = first_row + minimum({across.results} - x, {RESULTS})",
        *([f"        if {at_edge}:"] if call else []),
        *(f"            {line}" for line in call),
        *(f"        {line}" for line in tail.loops),
    ]


def _kernel(lines: Sequence[str]) -> str:
    return "\n".join(["def kernel(buffers, start, stop):", *(f"    {x}" for x in lines)]) + "\n"


def _numbers(tiled: Tiled) -> list[int | str]:
    """What `winograd_block` takes after addresses."""
    phase = tiled.phase
    down, across = phase.lines
    square = 4 * phase.inputs * phase.outputs
    *_, (_, rest, _) = panels(phase)
    widths = min(phase.outputs, panel_width(phase.machine)), rest
    tiles = [tile_name(phase.machine, "f32", tiled.rows, width) for width in widths]
    return [
        *(tiled.block, tiled.rows, *tiled.grid),
        *(down.size, across.size, down.start, across.start, down.results, across.results),
        *(phase.inputs, phase.outputs),
        (down.tap * TAPS + across.tap) * square,
        *(down.tap_step * TAPS * square, across.tap_step * square),
        *(f"{tile}_address()" for tile in tiles),
    ]
