"""The loops around panels and tiles, compiled once for all products."""

import dataclasses
from collections.abc import Callable

from xla_server.codegen.compiler.llvm_text import FunctionText, TextLoop
from xla_server.codegen.kernel_ir.routine import Routine, Unit, parameters

LAYOUT = Routine(
    "gemm_layout",
    (
        # Work items to be done, and how many are one matrix.
        *parameters(Unit.COUNT, "start", "stop", "groups"),
        # The function for a panel.
        *parameters(Unit.FUNCTION, "lay_out"),
        # Matrices, and from one to the next, from group to group of panels, from panel to panel,
        # from stored row to stored row and from step to step.
        *parameters(Unit.READ, "source"),
        *parameters(Unit.OFFSET, "matrix_ahead", "group_ahead", "panel_ahead"),
        *parameters(Unit.OFFSET, "ahead", "step_ahead"),
        # Memory, and bytes of the panels of a matrix, of a group, of a panel and for a step.
        *parameters(Unit.WRITE, "target"),
        *parameters(Unit.OFFSET, "matrix_bytes", "group_bytes", "panel_bytes", "step_bytes"),
        # Members in all, of a group and of a panel; steps in all and of those done at a time.
        *parameters(Unit.COUNT, "members", "group", "height", "depth", "run"),
    ),
    cost=lambda n: (n["stop"] - n["start"]) * n["group"] * n["depth"],
)
"""Packs panels. A work item is a group of panels of a matrix."""

BAND = Routine(
    "gemm_band",
    (
        # Work items to be done, and how many there are across and down a product.
        *parameters(Unit.COUNT, "start", "stop", "across", "down"),
        # The functions for a tile, for the first of a panel of columns, which may pack it for the
        # others, and for panels of both sides.
        *parameters(Unit.FUNCTION, "tile", "first_tile", "lay_out_left", "lay_out_right"),
        # Left matrices, and the distances of matrices, stored rows, members (rows) and k indices.
        *parameters(Unit.READ, "left"),
        *parameters(Unit.OFFSET, "left_batch_ahead", "left_ahead", "member_ahead", "step_ahead"),
        # Right matrices, or their panels, and from one to the next, from work item to work item,
        # from panel to panel, from stored row to stored row and from step to step.
        *parameters(Unit.READ, "right"),
        *parameters(Unit.OFFSET, "right_batch_ahead", "block_ahead", "panel_ahead"),
        *parameters(Unit.OFFSET, "right_ahead", "right_step_ahead"),
        # Below how many columns a panel is packed in `room`, and a tile's step there.
        *parameters(Unit.COUNT, "narrow"),
        *parameters(Unit.OFFSET, "laid_out_ahead"),
        # Products, from row to row and the bytes of an element.
        *parameters(Unit.UPDATE, "result"),
        *parameters(Unit.OFFSET, "pitch", "width"),
        # Rows in all, of a work item and of a tile; columns in all, of a work item and of a panel.
        *parameters(Unit.COUNT, "rows", "band_rows", "height"),
        *parameters(Unit.COUNT, "columns", "block_columns", "panel_columns"),
        # Steps in all and at a time, and how many are one of a tile.
        *parameters(Unit.COUNT, "depth", "run", "per_step"),
        # Memory for the panels of a work item's rows, the bytes of one, and memory for a panel of
        # columns.
        *parameters(Unit.WRITE, "band"),
        *parameters(Unit.OFFSET, "band_panel_bytes"),
        *parameters(Unit.WRITE, "room"),
        # The cancellation flag: all is left as it is once that is not 0.
        *parameters(Unit.CANCELLED, "cancelled"),
    ),
    cost=lambda n: (n["stop"] - n["start"]) * n["band_rows"] * n["block_columns"] * n["depth"],
)
"""Multiplies. A work item is a band of rows with a block of columns."""

BAND_BY_ROWS = BAND.named("gemm_band_by_rows")
"""Multiplies one row of tiles after the other."""


def layout(f: FunctionText) -> None:
    """Write the function that lays out panels, a run of steps of a group's after the other."""
    function = f.pointer("%lay_out")
    item = TextLoop(f, "%start", "%stop", 1, [])
    group, matrix = f.divided(item.number, "%groups")
    source = f.address("%source", (matrix, "%matrix_ahead"), (group, "%group_ahead"))
    target = f.address("%target", (matrix, "%matrix_bytes"), (group, "%group_bytes"))
    there = f.minus("%members", f.let(f"mul i64 {group}, %group"))
    there = f.smaller(there, "%group")
    step = TextLoop(f, "0", "%depth", "%run", [])
    steps = f.smaller(f.minus("%depth", step.number), "%run")
    source = f.address(source, (step.number, "%step_ahead"))
    target = f.address(target, (step.number, "%step_bytes"))
    panel = TextLoop(f, "0", there, "%height", [("i64", source), ("i64", target)])
    source, target = panel.values
    members = f.smaller(f.minus(there, panel.number), "%height")
    f.invoke(function, source, "%ahead", target, steps, members)
    panel.end([f.plus(source, "%panel_ahead"), f.plus(target, "%panel_bytes")])
    step.end()
    item.end()


def band_by_columns(f: FunctionText) -> None:
    """Write the function that multiplies a band of rows panel by panel.

    A panel of columns is multiplied with all rows of the band before the next one is, so it stays
    in the L1 cache.
    """
    _band(f, _multiply_by_columns)


def band_by_rows(f: FunctionText) -> None:
    """Write the function that multiplies a band of rows one row of tiles after the other.

    Its operands are those of `band_by_columns`. Results are written in the order of memory, which
    matters where sums are so short that most of the memory traffic is results. The right matrix is
    packed ahead.
    """
    _band(f, _multiply_by_rows)


@dataclasses.dataclass(frozen=True, slots=True)
class _Block:
    """A band of rows and a block of columns at a run of steps, and the functions called for it."""

    f: FunctionText
    tile: str
    first_tile: str
    lay_out: str
    right: str
    result: str
    rows: str
    columns: str
    steps: str
    step: str


def _band(f: FunctionText, multiply: Callable[[_Block], None]) -> None:
    functions = ("%tile", "%first_tile", "%lay_out_left", "%lay_out_right")
    tile, first_tile, on_left, on_right = map(f.pointer, functions)
    item = TextLoop(f, "%start", "%stop", 1, [])
    block, rest = f.divided(item.number, "%across")
    band, batch = f.divided(rest, "%down")
    first_row = f.let(f"mul i64 {band}, %band_rows")
    first_column = f.let(f"mul i64 {block}, %block_columns")
    rows = f.smaller(f.minus("%rows", first_row), "%band_rows")
    columns = f.smaller(f.minus("%columns", first_column), "%block_columns")
    left = f.address("%left", (batch, "%left_batch_ahead"), (first_row, "%member_ahead"))
    right = f.address("%right", (batch, "%right_batch_ahead"), (block, "%block_ahead"))
    row = f.plus(f.let(f"mul i64 {batch}, %rows"), first_row)
    result = f.address("%result", (row, "%pitch"), (first_column, "%width"))
    step = TextLoop(f, "0", "%depth", "%run", [])
    steps = f.smaller(f.minus("%depth", step.number), "%run")
    left = f.address(left, (step.number, "%step_ahead"))
    right = f.address(right, (step.number, "%right_step_ahead"))
    _lay_out_band(f, on_left, left, rows, steps)
    multiply(
        _Block(f, tile, first_tile, on_right, right, result, rows, columns, steps, step.number)
    )
    step.end()
    item.end()


def _lay_out_band(f: FunctionText, function: str, left: str, rows: str, steps: str) -> None:
    """The panels of a band of rows."""
    row = TextLoop(f, "0", rows, "%height", [("i64", "%band")])
    (address,) = row.values
    there = f.smaller(f.minus(rows, row.number), "%height")
    source = f.address(left, (row.number, "%member_ahead"))
    f.invoke(function, source, "%left_ahead", address, steps, there)
    row.end([f.plus(address, "%band_panel_bytes")])


def _multiply_by_columns(block: _Block) -> None:
    """All tiles of a band with the panels of a block of columns, panel by panel."""
    f, rows, columns = block.f, block.rows, block.columns
    whole, adds = _whole_steps(f, block.steps), _adds(f, block.step)
    column = TextLoop(f, "0", columns, "%panel_columns", [("i64", block.right)])
    (right,) = column.values
    _return_if_cancelled(f)
    there = f.minus(columns, column.number)
    width = f.smaller(there, "%panel_columns")
    is_narrow = f.let(f"icmp slt i64 {there}, %narrow")
    with f.when(is_narrow):
        f.invoke(block.lay_out, right, "%right_ahead", "%room", block.steps, width)
    factors = f.let(f"select i1 {is_narrow}, i64 %room, i64 {right}")
    ahead = f.let(f"select i1 {is_narrow}, i64 %laid_out_ahead, i64 %right_ahead")
    result = f.address(block.result, (column.number, "%width"))
    tile = f.let(f"select i1 {is_narrow}, ptr {block.tile}, ptr {block.first_tile}")
    packs = f.let(f"icmp ne ptr {tile}, {block.tile}")
    below = [
        f.let(f"select i1 {packs}, i64 %room, i64 {factors}"),
        f.let(f"select i1 {packs}, i64 %laid_out_ahead, i64 {ahead}"),
    ]
    start = [("i64", "%band"), ("ptr", tile), ("i64", factors), ("i64", ahead)]
    row = TextLoop(f, "0", rows, "%height", start)
    address, tile, factors, ahead = row.values
    height = f.smaller(f.minus(rows, row.number), "%height")
    into = f.address(result, (row.number, "%pitch"))
    sizes = (whole, "%pitch", height, width, adds)
    f.invoke(tile, address, factors, into, "%room", ahead, *sizes)
    row.end([f.plus(address, "%band_panel_bytes"), block.tile, *below])
    column.end([f.plus(right, "%panel_ahead")])


def _multiply_by_rows(block: _Block) -> None:
    """All tiles of a band with the panels of a block of columns, row of tiles by row of tiles."""
    f, rows, columns = block.f, block.rows, block.columns
    whole, adds = _whole_steps(f, block.steps), _adds(f, block.step)
    row = TextLoop(f, "0", rows, "%height", [("i64", "%band")])
    (address,) = row.values
    _return_if_cancelled(f)
    height = f.smaller(f.minus(rows, row.number), "%height")
    result = f.address(block.result, (row.number, "%pitch"))
    column = TextLoop(f, "0", columns, "%panel_columns", [("i64", block.right)])
    (right,) = column.values
    width = f.smaller(f.minus(columns, column.number), "%panel_columns")
    into = f.address(result, (column.number, "%width"))
    sizes = (whole, "%pitch", height, width, adds)
    f.invoke(block.tile, address, right, into, "%room", "%right_ahead", *sizes)
    column.end([f.plus(right, "%panel_ahead")])
    row.end([f.plus(address, "%band_panel_bytes")])


def _whole_steps(f: FunctionText, steps: str) -> str:
    """Steps of a tile, of which the last one may be filled up."""
    return f.let(f"udiv i64 {f.plus(steps, f.minus('%per_step', '1'))}, %per_step")


def _adds(f: FunctionText, step: str) -> str:
    """1 where a tile adds to what earlier steps have left, else 0."""
    return f.let(f"zext i1 {f.let(f'icmp sgt i64 {step}, 0')} to i64")


def _return_if_cancelled(f: FunctionText) -> None:
    is_cancelled, leave, stay = f.is_cancelled(), f.label(), f.label()
    f.do(f"br i1 {is_cancelled}, label %{leave}, label %{stay}")
    f.start(leave)
    f.do("ret void")
    f.start(stay)
