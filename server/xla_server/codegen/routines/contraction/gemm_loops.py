"""The loops around panels and tiles, compiled once for all products."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from xla_server.codegen.compiler.shared_functions import PythonFunction, by_name, call_at
from xla_server.codegen.instructions.intrinsics import select, whole_div, whole_mod
from xla_server.codegen.instructions.memory import watch_i64
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.routine import (
    Cancelled,
    Count,
    Function,
    Offset,
    Read,
    Update,
    Write,
    routine_of,
)


class Strides(NamedTuple):
    """Strides, in bytes, of matrices, blocks of panels, panels, stored rows and k indices.

    A stored row of a packed panel is one step of a tile.
    """

    matrix: Offset
    block: Offset
    panel: Offset
    row: Offset
    step: Offset


def _layout(
    # Range of work items, and the number of work items per matrix.
    start: Count, stop: Count, groups: Count,
    # The function for a panel.
    pack: Function,
    source: Read, stored: Strides, target: Write, packed: Strides,
    # Rows or columns: total, of a group and of a panel; k indices: total and per K block.
    members: Count, group: Count, height: Count, depth: Count, run: Count,
) -> None:  # fmt: skip
    for item in range(start, stop):
        matrix, number = whole_div(item, groups), whole_mod(item, groups)
        there = min(members - number * group, group)
        step = 0
        while step < depth:
            steps = min(depth - step, run)
            first = source + matrix * stored.matrix + number * stored.block
            read = first + step * stored.step
            panels = target + matrix * packed.matrix + number * packed.block
            written = panels + step * packed.step
            member = 0
            while member < there:
                call_at(pack, read, stored.row, written, steps, min(there - member, height))
                read += stored.panel
                written += packed.panel
                member += height
            step += run


class BandSizes(NamedTuple):
    """Work items across and down a product; sizes: total, of a work item, and of a tile or panel.

    `depth` is in k indices, of which `run` are a K block, and `per_step` are one step of a tile.
    Each part of sums, of `part` k indices, has a result for each of `matrices` pairs of operands.
    Panels of fewer than `narrow` columns are packed if fewer than `over` k indices follow, and the
    first tile may pack others. A row of results has `pitch` bytes, an element `width`, a packed
    panel of rows `left_panel`, and one step of a packed panel of columns `right_row`.
    """

    across: Count
    down: Count
    rows: Count
    band_rows: Count
    height: Count
    columns: Count
    block_columns: Count
    panel_columns: Count
    narrow: Count
    over: Count
    depth: Count
    matrices: Count
    part: Count
    run: Count
    per_step: Count
    pitch: Offset
    width: Offset
    left_panel: Offset
    right_row: Offset


class Functions(NamedTuple):
    """The functions that pack panels, that of a tile and that of the first tile of a panel."""

    pack_left: Function
    pack_right: Function
    tile: Function
    first_tile: Function


def _band(*, is_by_rows: bool) -> Callable[..., None]:
    """Return the function that multiplies bands of rows with blocks of columns.

    A panel of columns is multiplied with all rows of the band before the next panel, so it stays in
    L1. If a band `is_by_rows`, results are written in memory order, which matters if sums are so
    short that results are most of the memory traffic; then the right matrix is packed ahead.
    """

    def band(
        # Range of work items.
        start: Count, stop: Count,
        left: Read, lefts: Strides, right: Read, rights: Strides, result: Update,
        sizes: BandSizes, functions: Functions,
        # Memory for the panels of a work item's rows, and for a panel of columns.
        band: Write, workspace: Write,
        # The function stores no more once the flag says STOP.
        cancelled: Cancelled,
    ) -> None:  # fmt: skip
        height, panel_columns = sizes.height, sizes.panel_columns
        pitch, width = sizes.pitch, sizes.width
        pack_left, pack_right, tile, first_tile = functions
        for item in range(start, stop):
            block, rest = whole_mod(item, sizes.across), whole_div(item, sizes.across)
            batch, band_number = whole_div(rest, sizes.down), whole_mod(rest, sizes.down)
            row, column = band_number * sizes.band_rows, block * sizes.block_columns
            high = min(sizes.rows - row, sizes.band_rows)
            wide = min(sizes.columns - column, sizes.block_columns)
            into = result + (batch * sizes.rows + row) * pitch + column * width
            begin = whole_div(batch, sizes.matrices) * sizes.part
            batch = whole_mod(batch, sizes.matrices)
            step, end = begin, min(begin + sizes.part, sizes.depth)
            while step < end:
                steps, adds = min(end - step, sizes.run), select(step > begin, 1, 0)
                # The last step of a tile may be padded.
                whole = whole_div(steps + sizes.per_step - 1, sizes.per_step)
                first = left + batch * lefts.matrix + band_number * lefts.block
                source = first + step * lefts.step
                factors = right + batch * rights.matrix + block * rights.block
                factors += step * rights.step
                panel, y = band, 0
                while y < high:
                    call_at(pack_left, source, lefts.row, panel, steps, min(high - y, height))
                    source += lefts.panel
                    panel += sizes.left_panel
                    y += height
                if is_by_rows:
                    panel, y = band, 0
                    while y < high:
                        if watch_i64(cancelled) != 0:
                            return
                        there, x = factors, 0
                        while x < wide:
                            call_at(
                                tile, panel, there, into + y * pitch + x * width, workspace,
                                rights.row, whole, pitch, min(high - y, height),
                                min(wide - x, panel_columns), adds,
                            )  # fmt: skip
                            there += rights.panel
                            x += panel_columns
                        panel += sizes.left_panel
                        y += height
                else:
                    x = 0
                    while x < wide:
                        if watch_i64(cancelled) != 0:
                            return
                        there, ahead, function = factors, rights.row, first_tile
                        remaining = sizes.depth - step - steps
                        if wide - x < sizes.narrow and remaining < sizes.over:
                            some = min(wide - x, panel_columns)
                            call_at(pack_right, there, ahead, workspace, steps, some)
                            there, ahead, function = workspace, sizes.right_row, tile
                        panel, y = band, 0
                        while y < high:
                            call_at(
                                function, panel, there, into + y * pitch + x * width, workspace,
                                ahead, whole, pitch, min(high - y, height),
                                min(wide - x, panel_columns), adds,
                            )  # fmt: skip
                            if function != tile:
                                there, ahead, function = workspace, sizes.right_row, tile
                            panel += sizes.left_panel
                            y += height
                        factors += rights.panel
                        x += panel_columns
                step += sizes.run

    return band


LAYOUT = routine_of(
    "gemm_layout", _layout, lambda n: (n["stop"] - n["start"]) * n["group"] * n["depth"]
)
"""Packs panels, one K block of a group after the other.

A work item is a group of panels of a matrix.
"""


def _products(n: Mapping[str, int]) -> float:
    item = n["sizes.band_rows"] * n["sizes.block_columns"] * n["sizes.depth"]
    return (n["stop"] - n["start"]) * item


_BY_COLUMNS, _BY_ROWS = _band(is_by_rows=False), _band(is_by_rows=True)
BAND = routine_of("gemm_band", _BY_COLUMNS, _products)
"""Multiplies. A work item is a band of rows with a block of columns."""

BAND_BY_ROWS = BAND.named("gemm_band_by_rows")
"""Multiplies one row of tiles after the other."""

GEMM_LOOPS = by_name(
    PythonFunction(routine, function, Effort.UNOPTIMISED)
    for routine, function in ((LAYOUT, _layout), (BAND, _BY_COLUMNS), (BAND_BY_ROWS, _BY_ROWS))
)
"""Every function of this module by its name in kernels."""
