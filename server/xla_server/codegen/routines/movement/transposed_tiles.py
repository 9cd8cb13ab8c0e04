"""Square tiles transposed in registers.

A tile of N rows of N elements is loaded into N vectors, which log2 N rounds transpose. Where rows
are long a round swaps blocks of half the size beside the diagonal. Short ones, which processors
have instructions for, are merged: each row of the upper half with one of the lower half.
"""

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from xla_server.codegen.compiler.llvm_text import FunctionText, TextLoop
from xla_server.codegen.compiler.shared_functions import SharedFunction, TextFunction
from xla_server.codegen.kernel_ir.routine import Routine, Unit, parameters
from xla_server.target.machine import Machine

SIDES = (16, 8, 4)
"""Rows of a tile, largest first. Sixteen times 4 bytes are a line of the cache."""

_WORD, _NUMBER = ir.IntType(64), ir.IntType(32)
_REGISTERS = 1024
"""Bytes that a tile may have: what 16 of the widest registers hold."""

_SHORT = 16
"""Bytes of a row up to which there are instructions that merge two."""


def side_of(width: int, rows: int, columns: int) -> int | None:
    """Rows of the largest tile of elements of `width` bytes that fits; None where none does."""
    for side in SIDES:
        if side * side * width <= _REGISTERS and side <= min(rows, columns):
            return side
    return None


def _tile(width: int, side: int) -> SharedFunction:
    """Return the function of `tile_routine`."""
    vector = ir.VectorType(ir.IntType(8 * width), side)

    def pointer(b: Any, start: Any, ahead: Any, row: int) -> Any:
        address = b.add(start, b.mul(ahead, ir.Constant(_WORD, row)))
        return b.inttoptr(address, ir.PointerType(vector))

    def write(function: Any, _: Machine) -> None:
        b = ir.IRBuilder(function.append_basic_block("entry"))
        source, source_ahead, target, target_ahead = function.args
        rows = [b.load(pointer(b, source, source_ahead, row), align=width) for row in range(side)]
        half = side // 2
        while half:
            is_short = side * width <= _SHORT
            rows = _merged(b, rows) if is_short else _exchanged(b, rows, half)
            half //= 2
        for row, value in enumerate(rows):
            b.store(value, pointer(b, target, target_ahead, row), align=width)
        b.ret_void()

    return SharedFunction(tile_routine(width, side), write)


def _merged(b: Any, rows: Sequence[Any]) -> list[Any]:
    """Rows after the round that takes elements in turn from each row and that half a tile below."""
    side = len(rows)
    half = side // 2
    result = []
    for upper, lower in zip(rows[:half], rows[half:], strict=True):
        for first in (0, half):
            lanes = [lane for n in range(first, first + half) for lane in (n, side + n)]
            mask = ir.Constant(ir.VectorType(_NUMBER, side), lanes)
            result.append(b.shuffle_vector(upper, lower, mask))
    return result


def _exchanged(b: Any, rows: Sequence[Any], half: int) -> list[Any]:
    """Rows after the round that swaps blocks of `half` rows and columns."""
    side = len(rows)
    result = list(rows)
    upper = [lane if not lane & half else side + lane - half for lane in range(side)]
    lower = [lane + half if not lane & half else side + lane for lane in range(side)]
    for row in range(side):
        if not row & half:
            for number, lanes in ((row, upper), (row + half, lower)):
                mask = ir.Constant(ir.VectorType(_NUMBER, side), lanes)
                result[number] = b.shuffle_vector(rows[row], rows[row + half], mask)
    return result


def tile_name(width: int, side: int) -> str:
    """Return the name of the transposition of a tile."""
    return f"transpose_{8 * width}_{side}"


def tile_routine(width: int, side: int) -> Routine:
    """Return the routine that transposes a tile, whose `ahead` are from row to row."""
    of_rows = (
        *parameters(Unit.READ, "source"),
        *parameters(Unit.OFFSET, "source_ahead"),
        *parameters(Unit.WRITE, "target"),
        *parameters(Unit.OFFSET, "target_ahead"),
    )
    return Routine(tile_name(width, side), of_rows, cost=lambda _: 2 * side * side)


BLOCKS = Routine(
    "transpose_blocks",
    (
        # Blocks to be done, and how many there are from the first row to the last.
        *parameters(Unit.COUNT, "start", "stop", "down"),
        # The function for a tile, and its rows.
        *parameters(Unit.FUNCTION, "tile"),
        *parameters(Unit.COUNT, "side"),
        # Bytes of an element; matrices, from column to column of one and from row to row of the
        # other.
        *parameters(Unit.OFFSET, "width"),
        *parameters(Unit.READ, "source"),
        *parameters(Unit.OFFSET, "source_ahead"),
        *parameters(Unit.WRITE, "target"),
        *parameters(Unit.OFFSET, "target_ahead"),
        # Rows and columns of a block, and the last ones of the matrix that a tile may begin at.
        *parameters(Unit.COUNT, "tall", "wide", "last_row", "last_column"),
    ),
    cost=lambda n: 2 * (n["stop"] - n["start"]) * n["tall"] * n["wide"],
)
"""Transposes blocks of a matrix. Blocks are whole tiles; the last tiles of the matrix begin earlier
where they would not fit."""


def _blocks_text(symbol: str) -> str:
    """The module of the function."""
    f = FunctionText(symbol, BLOCKS.names)
    tile = f.pointer("%tile")
    with f.when(f.let("icmp slt i64 %start, %stop")):
        block = TextLoop(f, "%start", "%stop", 1, [])
        down, across = f.divided(block.number, "%down")
        row, column = f.address("0", (down, "%tall")), f.address("0", (across, "%wide"))
        y = TextLoop(f, "0", "%tall", "%side", [])
        r = f.smaller(f.plus(row, y.number), "%last_row")
        x = TextLoop(f, "0", "%wide", "%side", [])
        c = f.smaller(f.plus(column, x.number), "%last_column")
        read = f.address("%source", (c, "%source_ahead"), (r, "%width"))
        written = f.address("%target", (r, "%target_ahead"), (c, "%width"))
        f.invoke(tile, read, "%source_ahead", written, "%target_ahead")
        x.end()
        y.end()
        block.end()
    return f.text()


_TILES = {
    tile_name(width, side): _tile(width, side)
    for width in (1, 2, 4, 8)
    for side in SIDES
    if side * side * width <= _REGISTERS
}

TILES: dict[str, Any] = {
    **_TILES,
    **{f"{name}_address": tile.address() for name, tile in _TILES.items()},
    BLOCKS.name: TextFunction(BLOCKS, _blocks_text),
}
"""Every function of this module by its name in kernels, and the instructions for addresses."""
