"""The loops around panels and tiles, compiled once for all products."""

from collections.abc import Callable

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


def _layout(
    # Work items to be done, and how many are one matrix.
    start: Count, stop: Count, groups: Count,
    # The function for a panel.
    lay_out: Function,
    # Matrices, and from one to the next, from group to group of panels, from panel to panel, from
    # stored row to stored row and from step to step.
    source: Read, matrix_ahead: Offset, group_ahead: Offset, panel_ahead: Offset,
    ahead: Offset, step_ahead: Offset,
    # Memory, and bytes of the panels of a matrix, of a group, of a panel and for a step.
    target: Write, matrix_bytes: Offset, group_bytes: Offset, panel_bytes: Offset,
    step_bytes: Offset,
    # Members in all, of a group and of a panel; steps in all and of those done at a time.
    members: Count, group: Count, height: Count, depth: Count, run: Count,
) -> None:  # fmt: skip
    for item in range(start, stop):
        matrix, number = whole_div(item, groups), whole_mod(item, groups)
        there = min(members - number * group, group)
        step = 0
        while step < depth:
            steps = min(depth - step, run)
            read = source + matrix * matrix_ahead + number * group_ahead + step * step_ahead
            written = target + matrix * matrix_bytes + number * group_bytes + step * step_bytes
            member = 0
            while member < there:
                call_at(lay_out, read, ahead, written, steps, min(there - member, height))
                read += panel_ahead
                written += panel_bytes
                member += height
            step += run


def _band(*, is_by_rows: bool) -> Callable[..., None]:
    """Return the function that multiplies bands of rows with blocks of columns.

    A panel of columns is multiplied with all rows of the band before the next one is, so it stays
    in the L1 cache. Where a band `is_by_rows`, results are written in the order of memory, which
    matters where sums are so short that most of the memory traffic is results: the right matrix is
    packed ahead then.
    """

    def band(
        # Work items to be done, and how many there are across and down a product.
        start: Count, stop: Count, across: Count, down: Count,
        # The functions for a tile, for the first of a panel of columns, which may pack it for the
        # others, and for panels of both sides.
        tile: Function, first_tile: Function, lay_out_left: Function, lay_out_right: Function,
        # Left matrices, and the distances of matrices, stored rows, members (rows) and k indices.
        left: Read, left_batch_ahead: Offset, left_ahead: Offset, member_ahead: Offset,
        step_ahead: Offset,
        # Right matrices, or their panels, and from one to the next, from work item to work item,
        # from panel to panel, from stored row to stored row and from step to step.
        right: Read, right_batch_ahead: Offset, block_ahead: Offset, panel_ahead: Offset,
        right_ahead: Offset, right_step_ahead: Offset,
        # Below how many columns a panel is packed in `room`, and a tile's step there.
        narrow: Count, laid_out_ahead: Offset,
        # Products, from row to row and the bytes of an element.
        result: Update, pitch: Offset, width: Offset,
        # Rows in all, of a work item and of a tile; columns in all, of a work item and of a panel.
        rows: Count, band_rows: Count, height: Count,
        columns: Count, block_columns: Count, panel_columns: Count,
        # Steps in all and at a time, and how many are one of a tile.
        depth: Count, run: Count, per_step: Count,
        # Memory for the panels of a work item's rows, the bytes of one, and memory for a panel of
        # columns.
        band: Write, band_panel_bytes: Offset, room: Write,
        # The cancellation flag: all is left as it is once that says STOP.
        cancelled: Cancelled,
    ) -> None:  # fmt: skip
        for item in range(start, stop):
            block, rest = whole_mod(item, across), whole_div(item, across)
            batch = whole_div(rest, down)
            row, column = whole_mod(rest, down) * band_rows, block * block_columns
            high, wide = min(rows - row, band_rows), min(columns - column, block_columns)
            into = result + (batch * rows + row) * pitch + column * width
            step = 0
            while step < depth:
                steps, adds = min(depth - step, run), select(step > 0, 1, 0)
                # The last step of a tile may be filled up.
                whole = whole_div(steps + per_step - 1, per_step)
                source = left + batch * left_batch_ahead + row * member_ahead + step * step_ahead
                factors = right + batch * right_batch_ahead + block * block_ahead
                factors += step * right_step_ahead
                panel, y = band, 0
                while y < high:
                    call_at(lay_out_left, source, left_ahead, panel, steps, min(high - y, height))
                    source += height * member_ahead
                    panel += band_panel_bytes
                    y += height
                if is_by_rows:
                    panel, y = band, 0
                    while y < high:
                        if watch_i64(cancelled) != 0:
                            return
                        there, x = factors, 0
                        while x < wide:
                            call_at(
                                tile, panel, there, into + y * pitch + x * width, room,
                                right_ahead, whole, pitch, min(high - y, height),
                                min(wide - x, panel_columns), adds,
                            )  # fmt: skip
                            there += panel_ahead
                            x += panel_columns
                        panel += band_panel_bytes
                        y += height
                else:
                    x = 0
                    while x < wide:
                        if watch_i64(cancelled) != 0:
                            return
                        there, ahead, function = factors, right_ahead, first_tile
                        if wide - x < narrow:
                            some = min(wide - x, panel_columns)
                            call_at(lay_out_right, there, ahead, room, steps, some)
                            there, ahead, function = room, laid_out_ahead, tile
                        panel, y = band, 0
                        while y < high:
                            call_at(
                                function, panel, there, into + y * pitch + x * width, room,
                                ahead, whole, pitch, min(high - y, height),
                                min(wide - x, panel_columns), adds,
                            )  # fmt: skip
                            if function != tile:
                                there, ahead, function = room, laid_out_ahead, tile
                            panel += band_panel_bytes
                            y += height
                        factors += panel_ahead
                        x += panel_columns
                step += run

    return band


LAYOUT = routine_of(
    "gemm_layout", _layout, lambda n: (n["stop"] - n["start"]) * n["group"] * n["depth"]
)
"""Packs panels, a run of steps of a group's after the other.

A work item is a group of panels of a matrix.
"""

_BY_COLUMNS, _BY_ROWS = _band(is_by_rows=False), _band(is_by_rows=True)
BAND = routine_of(
    "gemm_band",
    _BY_COLUMNS,
    lambda n: (n["stop"] - n["start"]) * n["band_rows"] * n["block_columns"] * n["depth"],
)
"""Multiplies. A work item is a band of rows with a block of columns."""

BAND_BY_ROWS = BAND.named("gemm_band_by_rows")
"""Multiplies one row of tiles after the other."""

GEMM_LOOPS = by_name(
    PythonFunction(routine, function, Effort.UNOPTIMISED)
    for routine, function in ((LAYOUT, _layout), (BAND, _BY_COLUMNS), (BAND_BY_ROWS, _BY_ROWS))
)
"""Every function of this module by its name in kernels."""
