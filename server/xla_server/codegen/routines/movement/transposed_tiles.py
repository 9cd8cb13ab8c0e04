"""Square tiles transposed in registers.

A tile of N rows of N elements is loaded into N vectors, which log2 N rounds transpose. For long
rows a round swaps off-diagonal blocks of half the size. Short rows are interleaved, for which
processors have instructions: each row of the upper half with one of the lower half.
"""

import functools
from typing import Any, NamedTuple

from xla_server.codegen.compiler.llvm_text import FunctionText
from xla_server.codegen.compiler.shared_functions import (
    PythonFunction,
    TextFunction,
    call_at,
    with_addresses,
)
from xla_server.codegen.instructions.intrinsics import whole_div, whole_mod
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.routine import (
    Count,
    Function,
    Offset,
    Read,
    Routine,
    Unit,
    Write,
    parameters_of,
    routine_of,
)

SIDES = (16, 8, 4)
"""Rows of a tile, largest first. Sixteen times 4 bytes are a line of the cache."""

_REGISTERS = 1024
"""Largest tile, in bytes: 16 of the widest registers."""

_SHORT = 16
"""Largest row, in bytes, that processors have instructions to interleave with another."""


def side_of(width: int, rows: int, columns: int) -> int | None:
    """Rows of the largest tile of elements of `width` bytes that fits; None if none does."""
    most = min(rows, columns)
    return next((n for n in SIDES if n * n * width <= _REGISTERS and n <= most), None)


def _transpose(f: FunctionText, width: int, side: int) -> None:
    """Write the function of `tile_routine`."""
    vector = f"<{side} x i{8 * width}>"

    def pointer(start: str, ahead: str, row: int) -> str:
        return f.pointer(f.address(start, (ahead, row)))

    rows = [f.read(vector, pointer("%source", "%source_ahead", row), width) for row in range(side)]
    half = side // 2
    while half:
        is_short = side * width <= _SHORT
        rows = f.merged(vector, rows, side) if is_short else f.exchanged(vector, rows, half)
        half //= 2
    for row, value in enumerate(rows):
        f.write(vector, value, pointer("%target", "%target_ahead", row), width)


def tile_name(width: int, side: int) -> str:
    """Return the name of the transposition of a tile."""
    return f"transpose_{8 * width}_{side}"


def tile_routine(width: int, side: int) -> Routine:
    """Return the routine that transposes a tile, whose `ahead` are from row to row."""
    of_rows = parameters_of(
        source=Unit.READ, source_ahead=Unit.OFFSET, target=Unit.WRITE, target_ahead=Unit.OFFSET
    )
    return Routine(tile_name(width, side), of_rows, cost=lambda _: 2 * side * side)


class Blocks(NamedTuple):
    """Blocks of a matrix: `down` from its first row to the last, of `tall` rows and `wide` columns.

    Tiles have `side` rows, elements `width` bytes; the last tiles begin at `last_row` and
    `last_column`. A stored column has `source_ahead` bytes, a row of the result `target_ahead`.
    """

    down: Count
    side: Count
    width: Offset
    source_ahead: Offset
    target_ahead: Offset
    tall: Count
    wide: Count
    last_row: Count
    last_column: Count


def _transpose_blocks(
    start: Count, stop: Count, tile: Function, source: Read, target: Write, blocks: Blocks
) -> None:
    down, side, width, source_ahead, target_ahead, tall, wide, last_row, last_column = blocks
    for block in range(start, stop):
        y = 0
        while y < tall:
            row = min(whole_mod(block, down) * tall + y, last_row)
            x = 0
            while x < wide:
                column = min(whole_div(block, down) * wide + x, last_column)
                read = source + column * source_ahead + row * width
                written = target + row * target_ahead + column * width
                call_at(tile, read, source_ahead, written, target_ahead)
                x += side
            y += side


BLOCKS = routine_of(
    "transpose_blocks",
    _transpose_blocks,
    lambda n: 2 * (n["stop"] - n["start"]) * n["blocks.tall"] * n["blocks.wide"],
)
"""Transposes blocks of a matrix. Blocks are whole tiles; the last tiles of the matrix begin earlier
where they would not fit."""

_TILES = [
    TextFunction(tile_routine(width, side), functools.partial(_transpose, width=width, side=side))
    for width in (1, 2, 4, 8)
    for side in SIDES
    if side * side * width <= _REGISTERS
]

TILES: dict[str, Any] = {
    **with_addresses(_TILES),
    BLOCKS.name: PythonFunction(BLOCKS, _transpose_blocks, Effort.PLAIN),
}
"""Every function of this module by its name in kernels, and the instructions for addresses."""
