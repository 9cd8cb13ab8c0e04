"""Concatenation of arrays that are in memory, as functions that all programs share.

A concatenate copies a run of neighbouring bytes of each operand into each row of its result. The
runs are not in the code but in a table, so that a kernel's text does not depend on the number of
operands, and is compiled once per process.

Buffer 0 of a kernel is the table, buffer 1 the result, and the others are operands. The table is
words of 64 bits: COUNT of its entries, ROW_BYTES from row to row of the result, COPIED_BYTES of
each row that the entries fill, ROWS, and BLOCK_ROWS that are copied operand by operand. The entries
follow, ENTRY_WORDS each, in the order of the result:

- BUFFER, the number of the operand's buffer.
- OFFSET, the byte of its first run, and STRIDE, the bytes from run to run.
- TARGET, the byte of a row that the run is copied to, and SIZE, its bytes.
- BEGIN, the bytes of a row that the entries before it fill.
"""

import dataclasses
from typing import Any

from numba import njit

from xla_server.codegen.compiler.shared_functions import PythonFunction, call_at
from xla_server.codegen.instructions.intrinsics import minimum, whole_div, whole_mod
from xla_server.codegen.instructions.memory import COPY_BYTES, MEMORY, alloca
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.routine import Count, Function, Offset, Routine, Table, routine_of
from xla_server.codegen.routines.movement.transposed_tiles import SIDES

COUNT, ROW_BYTES, COPIED_BYTES, ROWS, BLOCK_ROWS = range(5)
HEAD_WORDS = 5
BUFFER, OFFSET, STRIDE, TARGET, SIZE, BEGIN = range(6)
ENTRY_WORDS = 6
"""Words of the table before its entries, and of each entry; see above."""

LINE_BYTES = 64
"""Bytes that an iteration of `concatenate_bytes` copies: a cache line."""

_word = MEMORY["peek_i64"]
_copy = MEMORY["copy_bytes"]


def _concatenate_bytes(buffers: Table, start: Count, stop: Count) -> None:
    """Copy lines `start` to `stop` of all bytes that the entries fill, in the result's order."""
    table, result = _word(buffers, 0), _word(buffers, 1)
    copied, row_bytes = _word(table, COPIED_BYTES), _word(table, ROW_BYTES)
    count, entries = _word(table, COUNT), table + 8 * HEAD_WORDS
    position = start * LINE_BYTES
    left = minimum(stop * LINE_BYTES, copied * _word(table, ROWS)) - position
    row = whole_div(position, copied)
    inside = whole_mod(position, copied)
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        if _word(entries, middle * ENTRY_WORDS + BEGIN) <= inside:
            low = middle
        else:
            high = middle
    while left > 0:
        entry = entries + low * (8 * ENTRY_WORDS)
        skipped = inside - _word(entry, BEGIN)
        size = minimum(_word(entry, SIZE) - skipped, left)
        source = _word(buffers, _word(entry, BUFFER)) + _word(entry, OFFSET)
        target = result + row * row_bytes + _word(entry, TARGET)
        _copy(target + skipped, source + row * _word(entry, STRIDE) + skipped, size)
        left -= size
        inside += size
        low += 1
        if low == count:
            low = 0
            inside = 0
            row += 1


def _concatenate_rows(buffers: Table, start: Count, stop: Count) -> None:
    """Copy the runs of rows `start` to `stop`: many short ones.

    A block of rows is filled operand by operand, so that an entry is read once for the block.
    """
    table, result = _word(buffers, 0), _word(buffers, 1)
    row_bytes, block = _word(table, ROW_BYTES), _word(table, BLOCK_ROWS)
    count = _word(table, COUNT)
    row = start
    while row < stop:
        rows = minimum(block, stop - row)
        entry = table + 8 * HEAD_WORDS
        for _ in range(count):
            stride, size = _word(entry, STRIDE), _word(entry, SIZE)
            source = _word(buffers, _word(entry, BUFFER)) + _word(entry, OFFSET) + row * stride
            target = result + row * row_bytes + _word(entry, TARGET)
            _copy_column(target, row_bytes, source, stride, size, rows)
            entry += 8 * ENTRY_WORDS
        row += rows


@njit(error_model="numpy")
def _copy_column(target, ahead, source, stride, size, rows):  # type: ignore[no-untyped-def]
    """Copy `rows` runs of `size` bytes. Known widths are loads and stores, not calls."""
    if size == 1:
        _copy_runs(target, ahead, source, stride, rows, 1)
    elif size == 2:
        _copy_runs(target, ahead, source, stride, rows, 2)
    elif size == 4:
        _copy_runs(target, ahead, source, stride, rows, 4)
    elif size == 8:
        _copy_runs(target, ahead, source, stride, rows, 8)
    elif size == 16:
        _copy_runs(target, ahead, source, stride, rows, 16)
    elif size < 4:
        _copy_ends(target, ahead, source, stride, rows, size, 2)
    elif size < 8:
        _copy_ends(target, ahead, source, stride, rows, size, 4)
    elif size < 16:
        _copy_ends(target, ahead, source, stride, rows, size, 8)
    elif size <= 32:
        _copy_ends(target, ahead, source, stride, rows, size, 16)
    elif size <= 64:
        _copy_ends(target, ahead, source, stride, rows, size, 32)
    elif size <= 128:
        _copy_ends(target, ahead, source, stride, rows, size, 64)
    else:
        _copy_runs(target, ahead, source, stride, rows, size)


@njit(error_model="numpy")
def _copy_runs(target, ahead, source, stride, rows, size):  # type: ignore[no-untyped-def]
    for _ in range(rows):
        _copy(target, source, size)
        target += ahead
        source += stride


@njit(error_model="numpy")
def _copy_ends(target, ahead, source, stride, rows, size, width):  # type: ignore[no-untyped-def]
    """Copy runs of `width` to 2 * `width` bytes by two accesses, which may overlap."""
    last = size - width
    for _ in range(rows):
        _copy(target, source, width)
        _copy(target + last, source + last, width)
        target += ahead
        source += stride


TILE_BYTES = 256
"""Bytes of each operand that `interleave_tiles` transposes at once: some neighbouring lines, which
the processor fetches ahead."""

_MAX_OPERANDS = max(SIDES)


def copying(routine: Routine, bytes_each: int) -> Routine:
    """Return a routine of this module for tables whose work items copy `bytes_each` bytes."""
    each = COPY_BYTES.work({"count": bytes_each})
    return dataclasses.replace(routine, cost=lambda n: (n["stop"] - n["start"]) * each)


BY_BYTES = routine_of("concatenate_bytes", _concatenate_bytes)
"""Copies lines of all bytes that the entries fill."""

BY_ROWS = routine_of("concatenate_rows", _concatenate_rows)
"""Copies rows of the result."""


def _interleave(
    buffers: Table, start: Count, stop: Count, tile: Function, side: Count, width: Offset
) -> None:
    """Interleave single elements of operands, tile by tile.

    The runs of all entries are one element of `width` bytes, side by side in operands and result.
    `tile` is the address of the function that transposes `side` operands and elements; there are at
    least `side` operands, and at least TILE_BYTES of each. Iterations are TILE_BYTES of operands.
    The last ones begin earlier where they would not fit.
    """
    workspace = alloca(_MAX_OPERANDS * TILE_BYTES)
    table, result = _word(buffers, 0), _word(buffers, 1)
    count, row_bytes = _word(table, COUNT), _word(table, ROW_BYTES)
    tall = whole_div(TILE_BYTES, width)
    for block in range(start, stop):
        row = min(block * tall, _word(table, ROWS) - tall)
        group = 0
        while group < count:
            first = min(group, count - side)
            entry = table + 8 * HEAD_WORDS + first * (8 * ENTRY_WORDS)
            for operand in range(side):
                source = _word(buffers, _word(entry, BUFFER)) + _word(entry, OFFSET) + row * width
                _copy(workspace + operand * TILE_BYTES, source, TILE_BYTES)
                entry += 8 * ENTRY_WORDS
            y = 0
            while y < tall:
                target = result + (row + y) * row_bytes + first * width
                call_at(tile, workspace + y * width, TILE_BYTES, target, row_bytes)
                y += side
            group += side


INTERLEAVE = routine_of("interleave_tiles", _interleave)
"""Interleaves single elements of operands, tile by tile."""

CONCATENATION: dict[str, Any] = {
    INTERLEAVE.name: PythonFunction(INTERLEAVE, _interleave, Effort.PLAIN),
    BY_BYTES.name: PythonFunction(BY_BYTES, _concatenate_bytes, Effort.PLAIN),
    BY_ROWS.name: PythonFunction(BY_ROWS, _concatenate_rows, Effort.PLAIN),
}
"""Every function of this module by its name in kernels."""
