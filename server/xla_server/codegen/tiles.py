"""Square tiles transposed in registers.

A tile of N rows of N elements is loaded into N vectors, which log2 N rounds of exchanges
transpose: a round swaps blocks of half the size beside the diagonal.
"""

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types

from xla_server.codegen.instruction import instruction

SIDES = (16, 8, 4)
"""Rows of a tile, largest first. Sixteen times 4 bytes are a line of the cache."""

_WORD, _NUMBER = ir.IntType(64), ir.IntType(32)
_REGISTERS = 1024
"""Bytes that a tile may have: what 16 of the widest registers hold."""


def side_of(width: int, rows: int, columns: int) -> int | None:
    """Rows of the largest tile of elements of `width` bytes that fits; None where none does."""
    for side in SIDES:
        if side * side * width <= _REGISTERS and side <= min(rows, columns):
            return side
    return None


def _tile(width: int, side: int) -> Any:
    """Transpose a tile: (source, bytes from row to row of it, target, bytes from row to row)."""
    vector = ir.VectorType(ir.IntType(8 * width), side)

    def place(b: Any, start: Any, ahead: Any, row: int) -> Any:
        address = b.add(start, b.mul(ahead, ir.Constant(_WORD, row)))
        return b.inttoptr(address, ir.PointerType(vector))

    def generate(context: Any, b: Any, signature: Any, args: Sequence[Any]) -> Any:
        source, source_ahead, target, target_ahead = args
        rows = [b.load(place(b, source, source_ahead, row), align=width) for row in range(side)]
        half = side // 2
        while half:
            rows = _exchanged(b, rows, half)
            half //= 2
        for row, value in enumerate(rows):
            b.store(value, place(b, target, target_ahead, row), align=width)
        return context.get_dummy_value()

    word = types.int64

    def transpose(typing_context, source, source_ahead, target, target_ahead):  # type: ignore[no-untyped-def]
        return types.void(word, word, word, word), generate

    transpose.__name__ = tile_name(width, side)
    return instruction(transpose)


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
    """What kernels call a tile's transposition."""
    return f"transpose_{8 * width}_{side}"


TILES: dict[str, Any] = {
    tile_name(width, side): _tile(width, side)
    for width in (1, 2, 4, 8)
    for side in SIDES
    if side * side * width <= _REGISTERS
}
"""Every instruction of this module by its name in kernels."""
