"""The text of kernels that do a convolution by tiles of results kept in registers.

They read the input where it is, block by block, and what they tell the function of a block are
numbers.
"""

import math
from collections.abc import Mapping, Sequence

from xla_server.codegen.lower.convolution_phases import (
    Phase,
    panel_columns,
    panels,
    scratch,
    tiles,
)
from xla_server.codegen.lower.epilogue_text import NO_EPILOGUE_TEXT, EpilogueText
from xla_server.codegen.routines.direct_block import PARAMETERS
from xla_server.codegen.routines.product_tiles import LEVELS, tile_name


def phases_source(
    phases: Sequence[Phase],
    places: Sequence[int] = (0, 1, 2, 3, 4),
    tail: EpilogueText = NO_EPILOGUE_TEXT,
    exact: Sequence[str] = (),
) -> str:
    """The text of the kernel of all phases, with what is done to each block's results.

    `places` are the numbers of input, packed kernel, result, kernel and memory for boxes among its
    arguments. `exact` sums rows of the result again, which are those of first_row to last_row.
    """
    # No other phase has more results than the first.
    lead = phases[0]
    blocks = -(-lead.lines[0].results // lead.block)
    room = max(phase.room for phase in phases) * lead.width
    is_apart = bool(scratch(phases))
    share = [f"whole_div(mul({trip}, {lead.tasks}), {lead.trips})" for trip in ("t", "add(t, 1)")]
    lines = [
        f"source = peek_i64(buffers, {places[0]})",
        f"weights = peek_i64(buffers, {places[1]})",
        f"result = peek_i64(buffers, {places[2]})",
        *([f"original = peek_i64(buffers, {places[3]})"] if exact else []),
        *([f"scratch = peek_i64(buffers, {places[4]})"] if is_apart else []),
        *([f"box = room_for({room})"] if room and not is_apart else []),
        *tail.first,
        "for t in range(start, stop):",
        *([f"    box = scratch + t * {room}"] if is_apart else []),
        f"    for task in range({', '.join(share)}):",
    ]
    body = [
        f"block = whole_mod(task, {blocks}) * {lead.block}",
        f"image = whole_div(task, {blocks})",
    ]
    for phase in phases:
        body += _call_lines(phase)
    body += _exact_lines(lead, exact) if exact else []
    body += _tail_lines(lead, tail) if tail.loops else []
    text = ["def kernel(buffers, start, stop):"]
    text += [f"    {line}" for line in lines] + [f"            {line}" for line in body]
    return tail.constants + "\n".join(text) + "\n"


def _exact_lines(phase: Phase, exact: Sequence[str]) -> list[str]:
    """Return what sums a block's results again; a line's last block includes earlier ones."""
    first = phase.lines[0]
    start = f"block * {first.apart}"
    if len(phase.lines) == 1:
        # The last block begins so early that it is whole, in a shorter phase by one.
        earlier = max(first.results - phase.block - 1, 0)
        start = f"minimum(block, {earlier}) * {first.apart}"
    call = [line.replace("weights", "original", 1) for line in exact]
    return [*_row_lines(phase, start), *call]


def _row_lines(phase: Phase, start: str) -> list[str]:
    first, *others = phase.lines
    row = math.prod(line.whole for line in others)
    end = f"minimum((block + {phase.block}) * {first.apart}, {first.whole})"
    return [
        f"first_row = (image * {first.whole} + {start}) * {row}",
        f"last_row = (image * {first.whole} + {end}) * {row}",
    ]


def _tail_lines(phase: Phase, tail: EpilogueText) -> list[str]:
    """Return the statements for a block, which is a number of rows of the result."""
    return [
        *_row_lines(phase, f"block * {phase.lines[0].apart}"),
        "first_column = 0",
        f"last_column = {phase.outputs * phase.groups}",
        *tail.loops,
    ]


def _strides(sizes: Sequence[int], unit: int) -> list[int]:
    return [unit * math.prod(sizes[d + 1 :]) for d in range(len(sizes))]


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


def _call_lines(phase: Phase) -> list[str]:
    """The call that does a block, whose many numbers would say nothing without their names."""
    operands = {
        **_place_operands(phase),
        **_panel_operands(phase),
        **_sum_operands(phase),
        **_tile_operands(phase),
    }
    lines = [
        f"    {', '.join(str(operands[name]) for name in names)},  # {' '.join(names)}"
        for names in PARAMETERS
    ]
    return ["direct_block(", *lines, ")"]


_Operands = Mapping[str, str | int]


def _of_dimensions(name: str, values: Sequence[int], missing: int) -> _Operands:
    """Numbers of three dimensions: those between the first and the last are missing first."""
    first, last = values[:-1][:1], values[-1:]
    between = values[len(first) : -1]
    full = [*(first or [missing]), *(between or [missing]), *last]
    return {f"{name}{number}": value for number, value in enumerate(full)}


def _extents(phase: Phase) -> list[int]:
    """Places of what is read, along each dimension."""
    return [line.size for line in phase.lines] if phase.is_inside else phase.box


def _place_operands(phase: Phase) -> _Operands:
    """Where the block is in the input and the result."""
    lines, first = phase.lines, phase.lines[0]
    is_line = len(lines) == 1
    return {
        "source": "source",
        "weights": "weights",
        "result": "result",
        "box": 0 if phase.is_inside else "box",
        "image": "image",
        "down": 0 if is_line else "block",
        # The last block of a single dimension begins earlier, and does some results once more.
        "across": f"minimum(block, {first.results - phase.block})" if is_line else 0,
        "high": 1 if is_line else f"minimum({phase.block}, {first.results} - block)",
        **_of_dimensions("size", [line.size for line in lines], 1),
        **_of_dimensions("start", [line.start for line in lines], 0),
        **_of_dimensions("step", [line.step for line in lines], 1),
        **_of_dimensions("extent", _extents(phase), 1),
        **_of_dimensions("whole", [line.whole for line in lines], 1),
        **_of_dimensions("first", [line.first for line in lines], 0),
        **_of_dimensions("apart", [line.apart for line in lines], 1),
        **_of_dimensions("results", [line.results for line in lines], 1),
        "place": phase.pitch * phase.width,
        "to_place": phase.outputs * phase.groups * phase.width,
    }


def _panel_operands(phase: Phase) -> _Operands:
    """Where groups and panels are in the input, the kernel and the result."""
    width, outputs = phase.width, phase.outputs
    columns = panel_columns(phase)
    count, rest = divmod(outputs, columns)
    # Rows of a panel's columns that come before the next panel.
    between = phase.depth if phase.is_packed else 1
    features = outputs * phase.groups
    return {
        "groups": phase.groups,
        "group_read": phase.inputs * width,
        "group_weights": outputs * between * width,
        "group_written": outputs * width,
        "panels": count,
        "columns": columns,
        "panel_read": columns * width if phase.is_depthwise else 0,
        "panel_weights": columns * between * width,
        "panel_written": columns * width,
        "rest": rest,
        "rest_weights": count * columns * between * width,
        "row": (columns if phase.is_packed else features) * width,
        "rest_row": (rest if phase.is_packed else features) * width,
    }


def _sum_operands(phase: Phase) -> _Operands:
    """The loops of a sum: over the window, and the input features of a group."""
    unit = phase.pitch * phase.width
    places = _strides(_extents(phase), unit)
    taps = _strides([line.window for line in phase.lines], phase.inputs)
    loops = [
        (line.taps, line.reach * place, line.tap_step * step)
        for line, place, step in zip(phase.lines, places, taps, strict=True)
    ]
    operands = {
        f"{name}{level}": number
        for level, loop in enumerate(_joined([*loops, (phase.inputs, phase.width, 1)]))
        for name, number in zip(("trips", "over", "down"), loop, strict=True)
    }
    first = sum(line.tap * step for line, step in zip(phase.lines, taps, strict=True))
    return {**operands, "first_row": first}


def _tile_operands(phase: Phase) -> _Operands:
    """Which tiles a row of results is cut into, and their functions where they are called."""
    last = phase.lines[-1]
    row = last.results if len(phase.lines) > 1 else phase.block
    tall, tall_count, low_count = tiles(phase.machine, row)
    columns = panel_columns(phase)
    count, rest = divmod(phase.outputs, columns)

    def function(rows: int, columns: int, *, is_called: bool) -> str | int:
        if not is_called:
            return 0
        is_deep = phase.is_depthwise
        name = tile_name(phase.machine, phase.kind, rows, columns, is_depthwise=is_deep)
        return f"{name}_address()"

    return {
        "tall": tall,
        "tall_count": tall_count,
        "low_count": low_count,
        "tile": function(tall, columns, is_called=count > 0),
        "low_tile": function(tall - 1, columns, is_called=count > 0 and low_count > 0),
        "rest_tile": function(tall, rest, is_called=rest > 0),
        "low_rest_tile": function(tall - 1, rest, is_called=rest > 0 and low_count > 0),
    }


def _joined(loops: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Loops that move on as one made one, and as many as tiles have."""
    joined: list[tuple[int, int, int]] = []
    for trips, left, right in loops:
        if trips == 1:
            continue
        if joined:
            before = joined[-1]
            if before[1:] == (trips * left, trips * right):
                joined[-1] = (before[0] * trips, left, right)
                continue
        joined.append((trips, left, right))
    return [(1, 0, 0)] * (LEVELS - len(joined)) + joined
