"""Products of matrices by panels and tiles: how they are divided, and the text of their kernels."""

import dataclasses
from collections.abc import Mapping, Sequence

from xla_server.codegen.loops.stopping import is_long, stop_lines
from xla_server.codegen.lower.tail import TailText
from xla_server.codegen.routines.gemm_functions import panel_name, tile_name
from xla_server.codegen.routines.gemm_loops import BAND_OPERANDS, LAYOUT_OPERANDS
from xla_server.codegen.routines.gemm_panels import SLACK, SOURCES
from xla_server.codegen.routines.gemm_tiles import VECTORS, Kind, heights
from xla_server.target.machine import Machine
from xla_server.target.tuning import MatrixProducts, tuning_of


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """A matrix of one side: the type of its elements, and whether members' steps lie side by side.

    Members are the rows of the left one and the columns of the right one.
    """

    source: str
    is_across: bool

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return SOURCES[self.source][1]

    def ahead(self, members: int, steps: int) -> int:
        """Bytes from row to row as it is stored."""
        return (steps if self.is_across else members) * self.width

    def strides(self, members: int, steps: int) -> tuple[int, int]:
        """Bytes from member to member and from step to step."""
        ahead = self.ahead(members, steps)
        return (ahead, self.width) if self.is_across else (self.width, ahead)


@dataclasses.dataclass(frozen=True, slots=True)
class Gemm:
    """A product of `batch` pairs of matrices. `whole_rows` keeps rows in one trip."""

    machine: Machine
    kind: Kind
    left: Side
    right: Side
    batch: int
    rows: int
    columns: int
    depth: int
    whole_rows: bool = False

    @property
    def tuning(self) -> MatrixProducts:
        """The blocking for the machine."""
        return tuning_of(self.machine).products

    @property
    def height(self) -> int:
        """Rows of a tile: those that are computed in vain cost as much as others."""
        rows = heights(self.machine)
        return min(rows, key=lambda height: -(-self.rows // height) * (height + 1))

    @property
    def tiles(self) -> int:
        """Tiles of a column."""
        return -(-self.rows // self.height)

    @property
    def vectors(self) -> int:
        """Vectors of a tile's row."""
        return 1 if self.columns <= self.lanes else VECTORS

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return self.machine.lanes(self.kind.width)

    @property
    def panel_columns(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes

    @property
    def panels(self) -> int:
        """Panels of the right matrix."""
        return -(-self.columns // self.panel_columns)

    @property
    def work(self) -> int:
        """Products of all."""
        return self.batch * self.rows * self.columns * self.depth

    @property
    def run(self) -> int:
        """Steps that are summed up at a time."""
        steps = self.tuning.k_block_bytes // self.kind.width * self.per_step
        count = -(-self.depth // steps)
        # Squares are laid out whole.
        unit = self.lanes * self.per_step
        return self.depth if count == 1 else -(-self.depth // (count * unit)) * unit

    @property
    def per_step(self) -> int:
        """Elements of a step."""
        return 2 if self.kind.pairs else 1

    def panel_bytes(self, members: int, depth: int) -> int:
        """Of a panel."""
        return -(-depth // self.per_step) * members * self.kind.width

    @property
    def is_read_in_place(self) -> bool:
        """Whether the right matrix is not laid out at all."""
        lies_well = not self.right.is_across and not self.kind.pairs
        return lies_well and self.tiles <= self.tuning.max_unpacked_tiles

    @property
    def is_laid_out_ahead(self) -> bool:
        """Whether the right matrix is laid out by a kernel of its own, for all trips to share."""
        # A panel that few trips read is laid out by each of them in its cache, not in memory.
        _, down, _ = self.trips
        if self.tiles <= self.tuning.max_unpacked_tiles or down <= self.tuning.max_repacking_blocks:
            return False
        is_large = self.batch == 1 and self.work > 2 * self.tuning.min_item_products
        return is_large or self.right_bytes > self.tuning.stack_bytes

    @property
    def is_by_rows(self) -> bool:
        """Return whether a row of tiles is completed before the next, in the order of memory."""
        return self.depth <= self.tuning.max_shallow_depth and self.is_laid_out_ahead

    @property
    def right_bytes(self) -> int:
        """Of the panels of one right matrix."""
        return self.panels * self.panel_bytes(self.panel_columns, self.depth)

    @property
    def division(self) -> tuple[int, int]:
        """(tiles, panels) of a trip."""
        tuned = self.tuning
        most = self.work // self.batch // tuned.min_item_products
        wanted = min(-(-tuned.work_items // self.batch), max(1, most))
        most = max(1, tuned.m_block_bytes // self.panel_bytes(self.height, self.run))
        if self.depth <= tuned.max_shallow_depth:
            row = self.height * self.columns * self.kind.width
            most = min(most, max(-(-most // 8), tuned.result_block_bytes // row))
        down = max(min(wanted, self.tiles), -(-self.tiles // most))
        if self.tiles <= tuned.max_unpacked_tiles:
            down = 1
        elif self._is_divided_by_columns and self.tiles <= tuned.max_repacking_blocks * 2 * most:
            down = -(-self.tiles // (2 * most))
        tiles = -(-self.tiles // down)
        if self.batch == 1 and 1 < wanted <= down:
            tiles = min(range(max(1, tiles - 2), tiles + 1), key=lambda n: (self._share(n), -n))
            down = -(-self.tiles // tiles)
        if self.whole_rows:
            return tiles, self.panels
        of_trip = tiles * self.height * self.columns * self.depth
        across = max(-(-wanted // down), -(-of_trip // tuned.max_item_products))
        return tiles, -(-self.panels // min(across, self.panels))

    @property
    def _is_divided_by_columns(self) -> bool:
        """Whether trips share rows: the left matrix is the smaller one by far."""
        is_wide = self.columns >= self.tuning.min_wide_ratio * self.rows
        return is_wide and self.panels >= 2 * self.tuning.work_items and not self.whole_rows

    def _share(self, tiles: int) -> int:
        """Return the tiles of the busiest thread where threads take `tiles` at a time in turn."""
        whole, rest = divmod(self.tiles, tiles)
        rounds, others = divmod(whole, self.tuning.cores)
        return rounds * tiles + (tiles if others else rest)

    @property
    def trips(self) -> tuple[int, int, int]:
        """Trips for the batch, down the rows and across the columns."""
        tiles, panels = self.division
        return self.batch, -(-self.tiles // tiles), -(-self.panels // panels)


def layout_source(gemm: Gemm) -> tuple[str, int, int]:
    """Text, trips and work of the kernel that lays out right matrices: from one to the other."""
    side = gemm.right
    packed = gemm.tuning.panels_per_item
    groups = -(-gemm.panels // packed)
    member, step = side.strides(gemm.columns, gemm.depth)
    panel = gemm.panel_bytes(gemm.panel_columns, gemm.depth)
    members = packed * gemm.panel_columns
    operands: dict[str, str | int] = {
        "start": "start",
        "stop": "stop",
        "groups": groups,
        "lay_out": _address(gemm, side, gemm.panel_columns),
        "source": "peek_i64(buffers, 0)",
        "matrix_ahead": gemm.columns * gemm.depth * side.width,
        "group_ahead": members * member,
        "panel_ahead": gemm.panel_columns * member,
        "ahead": side.ahead(gemm.columns, gemm.depth),
        "step_ahead": step,
        "target": "peek_i64(buffers, 1)",
        "matrix_bytes": gemm.right_bytes,
        "group_bytes": packed * panel,
        "panel_bytes": panel,
        "step_bytes": _step_bytes(gemm),
        "members": gemm.columns,
        "group": members,
        "height": gemm.panel_columns,
        "depth": gemm.depth,
        "run": gemm.tuning.packing_steps,
    }
    lines = _call_lines("gemm_layout", LAYOUT_OPERANDS, operands)
    return _kernel(lines), gemm.batch * groups, members * gemm.depth


def product_source(gemm: Gemm, places: Sequence[int], tail: TailText) -> tuple[str, int, int]:
    """Text, trips and work of the kernel of products.

    `places` are the numbers of the left matrix, of the right one (or of its panels, where they are
    laid out ahead), of the product and of the word that cancels among its arguments.
    """
    kind, height = gemm.kind, gemm.height
    tiles, panels = gemm.division
    batch, down, across = gemm.trips
    operands: dict[str, str | int] = {
        **_left_operands(gemm),
        **_right_operands(gemm),
        "start": "trip" if tail.loops else "start",
        "stop": "trip + 1" if tail.loops else "stop",
        "across": across,
        "down": down,
        "tile": f"{tile_name(kind, height, gemm.vectors)}_address()",
        "left": f"peek_i64(buffers, {places[0]})",
        "right": f"peek_i64(buffers, {places[1]})",
        "result": f"peek_i64(buffers, {places[2]})",
        "pitch": gemm.columns * kind.width,
        "width": kind.width,
        "rows": gemm.rows,
        "band_rows": tiles * height,
        "height": height,
        "columns": gemm.columns,
        "block_columns": panels * gemm.panel_columns,
        "panel_columns": gemm.panel_columns,
        "depth": gemm.depth,
        "run": gemm.run,
        "per_step": gemm.per_step,
        "band": "band",
        "band_panel_bytes": gemm.panel_bytes(height, gemm.run),
        "room": "room",
        "cancelled": "cancelled",
    }
    room = 0 if gemm.is_laid_out_ahead else gemm.panel_bytes(gemm.panel_columns, gemm.run)
    lines = [
        f"band = room_for({tiles * gemm.panel_bytes(height, gemm.run) + SLACK})",
        f"room = {f'room_for({room + SLACK})' if room else 0}",
        f"cancelled = peek_i64(buffers, {places[3]})",
    ]
    function = "gemm_band_by_rows" if gemm.is_by_rows else "gemm_band"
    call = _call_lines(function, BAND_OPERANDS, operands)
    work = tiles * height * panels * gemm.panel_columns * (gemm.depth + tail.work)
    if tail.loops:
        looks = stop_lines(0) if is_long(work) else []
        call = [*call, *looks, *_tail_lines(gemm, tail)]
        lines += [*tail.first, "for trip in range(start, stop):"]
        lines += [f"    {line}" for line in call]
    else:
        lines += call
    return tail.constants + _kernel(lines), batch * down * across, work


def _tail_lines(gemm: Gemm, tail: TailText) -> list[str]:
    """The tail of a trip's part of the product."""
    tiles, panels = gemm.division
    _, down, across = gemm.trips
    rows, columns = tiles * gemm.height, panels * gemm.panel_columns
    return [
        f"first_column = whole_mod(trip, {across}) * {columns}",
        f"last_column = minimum(first_column + {columns}, {gemm.columns})",
        f"rest = whole_div(trip, {across})",
        f"row = whole_mod(rest, {down}) * {rows}",
        f"first_row = whole_div(rest, {down}) * {gemm.rows} + row",
        f"last_row = first_row + minimum({gemm.rows} - row, {rows})",
        *tail.loops,
    ]


def _left_operands(gemm: Gemm) -> dict[str, str | int]:
    """What a band is told of the left side."""
    side = gemm.left
    member, step = side.strides(gemm.rows, gemm.depth)
    return {
        "lay_out_left": _address(gemm, side, gemm.height),
        "left_batch_ahead": gemm.rows * gemm.depth * side.width,
        "left_ahead": side.ahead(gemm.rows, gemm.depth),
        "member_ahead": member,
        "step_ahead": step,
    }


def _right_operands(gemm: Gemm) -> dict[str, str | int]:
    """What a band is told of the right side."""
    kind, side = gemm.kind, gemm.right
    _, panels = gemm.division
    together = gemm.panel_columns * kind.width
    if gemm.is_laid_out_ahead:
        panel = gemm.panel_bytes(gemm.panel_columns, gemm.depth)
        return {
            "lay_out_right": 0,
            "right_batch_ahead": gemm.right_bytes,
            "block_ahead": panels * panel,
            "panel_ahead": panel,
            "right_ahead": together,
            "right_step_ahead": _step_bytes(gemm),
            "narrow": 0,
            "laid_out_ahead": 0,
        }
    member, step = side.strides(gemm.columns, gemm.depth)
    return {
        "lay_out_right": _address(gemm, side, gemm.panel_columns),
        "right_batch_ahead": gemm.columns * gemm.depth * side.width,
        "block_ahead": panels * gemm.panel_columns * member,
        "panel_ahead": gemm.panel_columns * member,
        "right_ahead": side.ahead(gemm.columns, gemm.depth),
        "right_step_ahead": step,
        # Tiles read whole vectors, so the last panel is laid out in any case where it is narrower.
        "narrow": gemm.panel_columns if gemm.is_read_in_place else gemm.columns + 1,
        "laid_out_ahead": together,
    }


def _call_lines(
    function: str, names: Sequence[str], operands: Mapping[str, str | int]
) -> list[str]:
    """A call, whose many numbers would say nothing without their names."""
    return [f"{function}(", *(f"    {operands[name]},  # {name}" for name in names), ")"]


def _address(gemm: Gemm, side: Side, height: int) -> str:
    name = panel_name(gemm.kind, side.source, height, is_across=side.is_across)
    return f"{name}_address()"


def _step_bytes(gemm: Gemm) -> int:
    """Of an element's step in a panel of the right side."""
    return gemm.panel_columns * gemm.kind.width // gemm.per_step


def _kernel(lines: Sequence[str]) -> str:
    return "\n".join(["def kernel(buffers, start, stop):", *(f"    {x}" for x in lines)]) + "\n"
