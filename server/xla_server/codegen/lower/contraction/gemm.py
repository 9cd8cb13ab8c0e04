"""Products of matrices by panels and tiles: their blocking, and their kernels."""

import dataclasses
import functools
import math

from xla_contract.types.shape import Shape
from xla_server.buffers.code import CANCELLATION, Value
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Items
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.expressions import whole
from xla_server.codegen.kernel_ir.routine import Operands, function_address
from xla_server.codegen.kernel_ir.statements import Stop
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.contraction.sum_parts import SumParts
from xla_server.codegen.lower.loop_nests.epilogue import Epilogue, EpilogueKernel, Product
from xla_server.codegen.lower.lowering import Lowering
from xla_server.codegen.routines.contraction import gemm_loops
from xla_server.codegen.routines.contraction.gemm_functions import panel_name, tile_name
from xla_server.codegen.routines.contraction.gemm_panels import SLACK
from xla_server.codegen.routines.contraction.gemm_tiles import TileKind, heights, widths
from xla_server.codegen.schedules.builders.launches.stopping import is_long
from xla_server.target.target import Target
from xla_server.target.tuning import MatrixProducts


@dataclasses.dataclass(frozen=True, slots=True)
class GemmOperand:
    """An operand: its element type, and whether elements along k are contiguous.

    Members are the rows of the left operand and the columns of the right one.
    """

    source: str
    is_across: bool

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return Type(self.source).byte_size

    def strides(self, members: int, depth: int, height: int, panels: int) -> gemm_loops.Strides:
        """Return the strides of matrices, by blocks of `panels` of `height` members each."""
        row = (depth if self.is_across else members) * self.width
        member, step = (row, self.width) if self.is_across else (self.width, row)
        panel = height * member
        return gemm_loops.Strides(members * depth * self.width, panels * panel, panel, row, step)


@dataclasses.dataclass(frozen=True)
class Gemm:
    """A product of `batch` pairs of matrices. `whole_rows` keeps each row in one work item."""

    target: Target
    kind: TileKind
    left: GemmOperand
    right: GemmOperand
    batch: int
    rows: int
    columns: int
    depth: int
    whole_rows: bool = False

    @property
    def tuning(self) -> MatrixProducts:
        """The blocking for the machine."""
        return self.target.tuning.products

    @functools.cached_property
    def height(self) -> int:
        """Rows of a tile, chosen for the least time: padding rows cost as much as others."""
        rows = heights(self.target.machine)
        return min(rows, key=lambda height: -(-self.rows // height) * (height + 1))

    @property
    def tiles(self) -> int:
        """Tiles of a column."""
        return -(-self.rows // self.height)

    @functools.cached_property
    def vectors(self) -> int:
        """Vectors of a tile's row, chosen for the least time, in which padding vectors count."""
        sizes = reversed(widths(self.kind, self.height))
        return min(sizes, key=lambda n: -(-self.columns // (n * self.lanes)) * (n + 1))

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return self.target.machine.lanes(self.kind.width)

    @functools.cached_property
    def panel_columns(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes

    @property
    def panels(self) -> int:
        """Panels of the right matrix."""
        return -(-self.columns // self.panel_columns)

    @property
    def work(self) -> int:
        """Number of multiplications."""
        return self.batch * self.rows * self.columns * self.depth

    @functools.cached_property
    def parts(self) -> SumParts:
        """The parts of sums, which work items share if there are few results."""
        tuned = self.target.tuning.deep_products
        sizes = self.batch, self.rows, self.columns
        return SumParts.of(tuned, sizes, self.depth, tuned.tile_results)

    @property
    def results(self) -> int:
        """Number of result matrices before parts of sums are added up."""
        return self.batch * self.parts.count

    @property
    def run(self) -> int:
        """Depth of a K block, in k indices."""
        steps = self.tuning.k_block_bytes // self.kind.width * self.per_step
        depth = self.parts.depth
        count = -(-depth // steps)
        # Panels are packed by square blocks.
        unit = self.lanes * self.per_step
        return depth if count == 1 else -(-depth // (count * unit)) * unit

    @property
    def per_step(self) -> int:
        """k indices of a packed step: 2 if their elements are stored in pairs."""
        return 2 if self.kind.pairs else 1

    def panel_bytes(self, members: int, depth: int) -> int:
        """Return the bytes of a packed panel."""
        return -(-depth // self.per_step) * members * self.kind.width

    def packed_strides(self, panels: int) -> gemm_loops.Strides:
        """Return the strides of packed right matrices, by blocks of `panels`."""
        panel = self.panel_bytes(self.panel_columns, self.depth)
        row = self.panel_columns * self.kind.width
        return gemm_loops.Strides(
            self.right_bytes, panels * panel, panel, row, row // self.per_step
        )

    @property
    def is_read_by_tiles(self) -> bool:
        """Return whether tiles read the right operand itself, no packed copy."""
        is_contiguous = not self.right.is_across and not self.kind.pairs
        return is_contiguous and not self.is_prepacked

    @property
    def is_packed_by_tiles(self) -> bool:
        """Return whether the first tile that reads a panel packs it for the tiles below."""
        return self.is_read_by_tiles and self.tiles > self.tuning.max_rereading_tiles

    @property
    def over(self) -> int:
        """Fewest k indices behind a K block for which tiles read its narrower last panel, too.

        They read up to a panel's row behind its last element; `depth` if they never do.
        """
        is_read = self.is_read_by_tiles and not self.is_packed_by_tiles
        return -(-self.panel_columns // self.columns) if is_read else self.depth

    @functools.cached_property
    def is_prepacked(self) -> bool:
        """Return whether a kernel of its own packs the right operand, for all work items."""
        # A panel with few readers is packed by each work item into its cache, not into memory.
        _, down, _ = self.work_items
        if self.tiles <= self.tuning.max_unpacked_tiles:
            return False
        if self._is_mostly_result:
            return True
        if down <= self.tuning.max_repacking_blocks:
            return False
        is_large = self.batch == 1 and self.work > 2 * self.tuning.min_item_products
        return is_large or self.right_bytes > self.tuning.block_bytes

    @property
    def _is_mostly_result(self) -> bool:
        """Return whether writing a result, larger than a cache share, takes most of the time.

        The result is then written by rows of tiles, in memory order.
        """
        tuned, result = self.tuning, self.rows * self.columns * self.kind.width
        is_larger = result > max(tuned.block_bytes, tuned.min_result_ratio * self.right_bytes)
        is_shallow = self.depth <= tuned.max_shallow_depth
        return is_shallow and is_larger and self.batch * self.right_bytes <= tuned.max_packed_bytes

    @property
    def is_by_rows(self) -> bool:
        """Return whether a row of tiles is completed before the next, in memory order."""
        return self.depth <= self.tuning.max_shallow_depth and self.is_prepacked

    @property
    def right_bytes(self) -> int:
        """Bytes of the packed panels of one right matrix."""
        return self.panels * self.panel_bytes(self.panel_columns, self.depth)

    @functools.cached_property
    def division(self) -> tuple[int, int]:
        """Tiles and panels of a work item."""
        tuned = self.tuning
        most = self.work // self.results // tuned.min_item_products
        wanted = min(-(-tuned.work_items // self.results), max(1, most))
        most = max(1, tuned.block_bytes // self.panel_bytes(self.height, self.run))
        if self.depth <= tuned.max_shallow_depth:
            row = self.height * self.columns * self.kind.width
            most = min(most, max(-(-most // 8), tuned.block_bytes // row))
        down = max(min(wanted, self.tiles), -(-self.tiles // most))
        if self.tiles <= tuned.max_unpacked_tiles:
            down = 1
        elif self._is_divided_by_columns and self.tiles <= tuned.max_repacking_blocks * 2 * most:
            down = -(-self.tiles // (2 * most))
        tiles = -(-self.tiles // down)
        if self.results == 1 and 1 < wanted <= down:
            tiles = min(range(max(1, tiles - 2), tiles + 1), key=lambda n: (self._share(n), -n))
            down = -(-self.tiles // tiles)
        if self.whole_rows:
            return tiles, self.panels
        of_item = tiles * self.height * self.columns * self.parts.depth
        across = max(-(-wanted // down), -(-of_item // tuned.max_item_products))
        return tiles, -(-self.panels // min(across, self.panels))

    @property
    def _is_divided_by_columns(self) -> bool:
        """Return whether work items split columns: the left matrix is by far the smaller one."""
        is_wide = self.columns >= self.tuning.min_wide_ratio * self.rows
        return is_wide and self.panels >= 2 * self.tuning.work_items and not self.whole_rows

    def _share(self, tiles: int) -> int:
        """Return the tiles of the busiest thread if threads take `tiles` at a time."""
        whole, rest = divmod(self.tiles, tiles)
        rounds, others = divmod(whole, self.target.machine.cores)
        return rounds * tiles + (tiles if others else rest)

    @property
    def work_items(self) -> tuple[int, int, int]:
        """Work items along the batch, the rows and the columns."""
        tiles, panels = self.division
        return self.results, -(-self.tiles // tiles), -(-self.panels // panels)


def add_layout(lowering: Lowering, gemm: Gemm, matrices: Value, name: str) -> Value:
    """Add the kernel that packs right matrices; return the panels."""
    width = gemm.right.width
    shape = Shape.array(matrices.shape.element_type, (gemm.batch * gemm.right_bytes // width,))
    panels = lowering.new(shape, name)
    side = gemm.right
    packed = gemm.tuning.panels_per_item
    groups = -(-gemm.panels // packed)
    building = EpilogueKernel()
    source, target = building.buffers((matrices,), panels)
    with Items(building.body, gemm.batch * groups, None) as items:
        operands: Operands = {
            "start": ir.START,
            "stop": ir.STOP,
            "groups": groups,
            "pack": _address(gemm, side, gemm.panel_columns),
            "source": ir.Address(source),
            "stored": side.strides(gemm.columns, gemm.depth, gemm.panel_columns, packed),
            "target": ir.Address(target),
            "packed": gemm.packed_strides(packed),
            "members": gemm.columns,
            "group": packed * gemm.panel_columns,
            "height": gemm.panel_columns,
            "depth": gemm.depth,
            "run": gemm.tuning.packing_steps,
        }
        items.call(gemm_loops.LAYOUT, operands)
    building.add(lowering, name, Effort.UNOPTIMISED)
    return panels


def add_products(made: Product, gemm: Gemm, epilogue: Epilogue) -> None:
    """Add the kernel of products, after one that packs the right matrix if it is large."""
    left, right = made.operands
    if gemm.is_prepacked:
        right = add_layout(made.lowering, gemm, right, f"{made.name}.panels")
    building = _products(made, gemm, epilogue, (left, right), polls=False)
    if epilogue.loops and is_long(building.built(Effort.OPTIMISED)):
        building = _products(made, gemm, epilogue, (left, right), polls=True)
    building.add(made.lowering, made.name, Effort.UNOPTIMISED)


def _products(
    made: Product, gemm: Gemm, epilogue: Epilogue, operands: tuple[Value, Value], *, polls: bool
) -> EpilogueKernel:
    """Return the kernel of products; if `polls`, it polls the cancellation flag itself."""
    height, (tiles, panels) = gemm.height, gemm.division
    building = EpilogueKernel(epilogue)
    left, right, result = map(ir.Address, building.buffers(operands, made.value))
    flag = building.buffer(CANCELLATION, ir.Usage.FLAG)
    band = building.stack_array("band", tiles * gemm.panel_bytes(height, gemm.run) + SLACK)
    workspace: int | ir.Expression = 0
    if not gemm.is_prepacked:
        panel = gemm.panel_bytes(gemm.panel_columns, gemm.run)
        workspace = ir.Address(building.stack_array("workspace", panel + SLACK))
    has_epilogue = bool(epilogue.loops)
    with Items(
        building.body, math.prod(gemm.work_items), "item" if has_epilogue else None
    ) as items:
        arguments: Operands = {
            "start": items.axis if has_epilogue else ir.START,
            "stop": items.axis + 1 if has_epilogue else ir.STOP,
            "left": left,
            "lefts": gemm.left.strides(gemm.rows, gemm.depth, height, tiles),
            "right": right,
            "rights": gemm.packed_strides(panels)
            if gemm.is_prepacked
            else gemm.right.strides(gemm.columns, gemm.depth, gemm.panel_columns, panels),
            "result": result,
            "sizes": _sizes(gemm),
            "functions": _functions(gemm),
            "band": ir.Address(band),
            "workspace": workspace,
            "cancelled": ir.Address(flag),
        }
        items.call(gemm_loops.BAND_BY_ROWS if gemm.is_by_rows else gemm_loops.BAND, arguments)
        if has_epilogue:
            if polls:
                items.add(Stop(flag))
            _emit_epilogue(gemm, items, epilogue)
    return building


def _emit_epilogue(gemm: Gemm, items: Items, epilogue: Epilogue) -> None:
    """Append the epilogue of a work item's part of the product."""
    tiles, panels = gemm.division
    _, down, across = gemm.work_items
    rows, columns = tiles * gemm.height, panels * gemm.panel_columns
    first_column = items.let("column", items.axis % across * columns)
    last_column = ir.integer_op("minimum", first_column + columns, gemm.columns)
    rest = items.let("rest", items.axis // across)
    row = items.let("row", rest % down * rows)
    first_row = items.let("first", rest // down * gemm.rows + row)
    last_row = first_row + ir.integer_op("minimum", whole(gemm.rows) - row, rows)
    epilogue.emit(items, (first_row, last_row), (first_column, last_column))


def _sizes(gemm: Gemm) -> gemm_loops.BandSizes:
    tiles, panels = gemm.division
    _, down, across = gemm.work_items
    # Tiles read whole vectors, so a narrower last panel is packed where these leave the matrix.
    narrow = gemm.panel_columns if gemm.is_read_by_tiles else gemm.columns + 1
    return gemm_loops.BandSizes(
        across=across,
        down=down,
        rows=gemm.rows,
        band_rows=tiles * gemm.height,
        height=gemm.height,
        columns=gemm.columns,
        block_columns=panels * gemm.panel_columns,
        panel_columns=gemm.panel_columns,
        narrow=0 if gemm.is_prepacked else narrow,
        over=gemm.over,
        depth=gemm.depth,
        matrices=gemm.batch,
        part=gemm.parts.depth,
        run=gemm.run,
        per_step=gemm.per_step,
        pitch=gemm.columns * gemm.kind.width,
        width=gemm.kind.width,
        left_panel=gemm.panel_bytes(gemm.height, gemm.run),
        right_row=gemm.panel_columns * gemm.kind.width,
    )


def _functions(gemm: Gemm) -> gemm_loops.Functions:
    tile, first_tile = (
        function_address(tile_name(gemm.kind, gemm.height, gemm.vectors, packs=packs))
        for packs in (False, gemm.is_packed_by_tiles)
    )
    is_packed = gemm.is_prepacked
    pack_right = 0 if is_packed else _address(gemm, gemm.right, gemm.panel_columns)
    return gemm_loops.Functions(
        _address(gemm, gemm.left, gemm.height), pack_right, tile, first_tile
    )


def _address(gemm: Gemm, side: GemmOperand, height: int) -> ir.Expression:
    return function_address(panel_name(gemm.kind, side.source, height, is_across=side.is_across))
