"""Lowering of transposes that are not fused: tile by tile.

Tiles read and write whole cache lines. Dimensions that stay adjacent are merged. The remaining
dimensions are a batch of matrices, with contiguous rows in the source and contiguous columns in the
result.
"""

import dataclasses
import math
from collections.abc import Sequence

from xla_server.buffers.code import Value
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Items, Loop, Names
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.routine import Operands, function_address
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.kernel_thunks import kernel_thunk
from xla_server.codegen.lower.loop_nests.loop_lowering import lower_loop
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.routines.movement.transposed_tiles import (
    BLOCKS,
    Blocks,
    side_of,
    tile_name,
    tile_routine,
)
from xla_server.ir.analysis.affine import dense_strides
from xla_server.ir.module import HloInstruction
from xla_server.target.kernel_tuning import Transposes

_SOURCE, _RESULT = ir.Buffer(0, ir.Usage.READ), ir.Buffer(1, ir.Usage.WRITE)


@dataclasses.dataclass(frozen=True, slots=True)
class TransposedDimension:
    """A dimension of the result, and its strides in source and result."""

    size: int
    read: int
    written: int


@dataclasses.dataclass(frozen=True, slots=True)
class Transposition:
    """A transpose, of `width` bytes an element. `rows` are dense in source, `columns` in result."""

    width: int
    rows: TransposedDimension
    columns: TransposedDimension
    outer: tuple[TransposedDimension, ...]


def transposition(
    dimensions: Sequence[int], permutation: Sequence[int], width: int
) -> Transposition | None:
    """Return the blocking of a transpose; None if runs of elements stay contiguous."""
    groups = _merged(dimensions, permutation)
    if not groups:
        return None
    last = groups[-1]
    if last.read == 1 and len(groups) > 2 and last.size * width in (2, 4, 8):
        # A run as short as an element is one.
        width *= last.size
        groups = [
            TransposedDimension(a.size, a.read // last.size, a.written // last.size)
            for a in groups[:-1]
        ]
    (rows,) = [axis for axis in groups if axis.read == 1]
    columns = groups[-1]
    if rows is columns or width > 8:
        return None
    outer = tuple(axis for axis in groups if axis not in (rows, columns))
    return Transposition(width, rows, columns, outer)


def _merged(dimensions: Sequence[int], permutation: Sequence[int]) -> list[TransposedDimension]:
    """The result's dimensions, those that are adjacent in the source as well merged."""
    read = dense_strides(dimensions)
    sizes = [dimensions[d] for d in permutation]
    axes: list[TransposedDimension] = []
    for number, d in enumerate(permutation):
        if dimensions[d] == 1:
            continue
        axis = TransposedDimension(dimensions[d], read[d], math.prod(sizes[number + 1 :]))
        if axes and axes[-1].read == axis.read * axis.size:
            axis = dataclasses.replace(axis, size=axes.pop().size * axis.size)
        axes.append(axis)
    return axes


def lower_transpose(lowering: Lowering, i: HloInstruction) -> Tree:
    """Add one kernel by tiles, or a loop nest if tiles gain nothing."""
    (operand,) = i.operands
    plan = transposition(
        operand.shape.dimensions, i.attributes.permutation, i.shape.element_type.byte_width
    )
    tuned = lowering.target.tuning.transposes
    if plan is None or i.shape.element_count < tuned.min_elements:
        return lower_loop(lowering, i)
    source, result = lowering.array(operand), lowering.new(i.shape, i.name)
    add_transposition(lowering, plan, source, result)
    return result


def add_transposition(
    lowering: Lowering, plan: Transposition, source: Value, result: Value
) -> None:
    """Add the kernel that transposes one value into another."""
    kernel = transposition_kernel(plan, lowering.target.tuning.transposes)
    lowering.add(kernel_thunk(result.name, kernel, (source, result)))


def transposition_kernel(plan: Transposition, tuned: Transposes) -> Kernel:
    """Return the kernel of two buffers."""
    rows, columns = plan.rows, plan.columns
    is_thin = min(rows.size, columns.size) <= tuned.max_thin
    side = None if is_thin else side_of(plan.width, rows.size, columns.size)
    run = tuned.block_bytes // plan.width if side else tuned.thin_run
    tall, wide = (_block(axis.size, side or 1, run) for axis in (rows, columns))
    builder = _KernelBuilder(plan, (tall, wide))
    body, effort = Body(), Effort.OPTIMISED
    if not side:
        builder.copy_elements(body)
    elif builder.blocks < tuned.min_blocks:
        builder.transpose_tiles(body, side)
        # For few blocks of calls, optimising the loops around them gains nothing.
        effort = Effort.PLAIN
    else:
        builder.transpose_blocks(body, side)
        effort = Effort.UNOPTIMISED
    return Kernel((_SOURCE, _RESULT), (), tuple(body.statements), effort)


def _block(size: int, side: int, elements: int) -> int:
    """Return the extent of a block: all tiles of a dimension, at most `elements` or one tile."""
    return min(-(-size // side) * side, max(side, elements))


class _KernelBuilder:
    """Builds the kernel of a plan, by blocks of `block` rows and columns."""

    def __init__(self, plan: Transposition, block: tuple[int, int]) -> None:
        self._plan, self._block, self._names = plan, block, Names()
        sizes = plan.rows.size, plan.columns.size
        self._counts = [-(-size // part) for size, part in zip(sizes, block, strict=True)]

    @property
    def blocks(self) -> int:
        """Blocks of a matrix."""
        return math.prod(self._counts)

    @property
    def _matrices(self) -> int:
        return math.prod(axis.size for axis in self._plan.outer)

    def transpose_blocks(self, top: Body, side: int) -> None:
        """Call a routine for those blocks of each matrix that are in the range of work items."""
        plan, blocks = self._plan, self.blocks
        width, rows, columns = plan.width, plan.rows, plan.columns
        first, last = ir.START // blocks, (ir.STOP + (blocks - 1)) // blocks
        with (
            Items(top, blocks * self._matrices, None) as items,
            Loop(items, "matrix", last, first, iterations=1) as body,
        ):
            read, written = self._matrix(body, body.axis)
            before = body.let("before", body.axis * blocks)
            operands: Operands = {
                "start": ir.integer_op("maximum", ir.START - before, 0),
                "stop": ir.integer_op("minimum", ir.STOP - before, blocks),
                "tile": function_address(tile_name(width, side)),
                "source": read,
                "target": written,
                "blocks": Blocks(
                    down=self._counts[0],
                    side=side,
                    width=width,
                    source_ahead=columns.read * width,
                    target_ahead=rows.written * width,
                    tall=self._block[0],
                    wide=self._block[1],
                    last_row=rows.size - side,
                    last_column=columns.size - side,
                ),
            }
            body.call(BLOCKS, operands)

    def transpose_tiles(self, top: Body, side: int) -> None:
        """Transpose the tiles of a block. The last ones begin earlier if they would not fit."""
        plan = self._plan
        width, rows, columns = plan.width, plan.rows, plan.columns
        with Items(top, self.blocks * self._matrices) as items:
            row, column, read, written = self._open_block(items)
            with Loop(items, "y", self._block[0] // side) as down:
                r = down.let(
                    "r", ir.integer_op("minimum", row + down.axis * side, rows.size - side)
                )
                with Loop(down, "x", self._block[1] // side) as across:
                    begin = column + across.axis * side
                    c = across.let("c", ir.integer_op("minimum", begin, columns.size - side))
                    operands: Operands = {
                        "source": read + (c * (columns.read * width) + r * width),
                        "source_ahead": columns.read * width,
                        "target": written + (r * (rows.written * width) + c * width),
                        "target_ahead": rows.written * width,
                    }
                    across.call(tile_routine(width, side), operands)

    def copy_elements(self, top: Body) -> None:
        """Copy runs of few rows or columns, whose neighbours vectors load or store together."""
        plan, kind = self._plan, f"u{8 * self._plan.width}"
        tall, wide = self._block
        with Items(top, self.blocks * self._matrices) as items:
            row, column, read, written = self._open_block(items)
            loops = [("c", column, wide, plan.columns.size), ("r", row, tall, plan.rows.size)]
            if tall > wide:
                # The shorter run is unrolled.
                loops.reverse()
            with _elements(items, *loops[0]) as around, _elements(around, *loops[1]) as body:
                r, c = (around.axis, body.axis) if tall > wide else (body.axis, around.axis)
                load = ir.Load(
                    ir.Region(read, ir.Usage.READ), Type(kind), c * plan.columns.read + r
                )
                value = body.let("value", load)
                body.store(
                    ir.Region(written, ir.Usage.WRITE), kind, r * plan.rows.written + c, value
                )

    def _open_block(
        self, items: Items
    ) -> tuple[ir.Expression, ir.Expression, ir.Expression, ir.Expression]:
        """Return the first row and column of a work item's block, and its matrix's addresses."""
        (tall, wide), (down, across) = self._block, self._counts
        row = items.let("row", items.axis % down * tall)
        rest = items.let("rest", items.axis // down)
        column = items.let("column", rest % across * wide)
        matrix = items.let("matrix", rest // across)
        return row, column, *self._matrix(items, matrix)

    def _matrix(self, body: Body, number: ir.Expression) -> tuple[ir.Expression, ir.Expression]:
        """Return the addresses of a matrix in source and result."""
        width, names = self._plan.width, self._names
        read: ir.Expression = ir.Address(_SOURCE)
        written: ir.Expression = ir.Address(_RESULT)
        for axis in reversed(self._plan.outer):
            at = body.let(names("i"), number % axis.size)
            number = body.let(names("rest"), number // axis.size)
            read = body.let(names("read"), read + at * (axis.read * width))
            written = body.let(names("written"), written + at * (axis.written * width))
        return read, written


def _elements(body: Body, name: str, first: ir.Expression, count: int, size: int) -> Loop:
    if count == size:
        return Loop(body, name, size)
    end = ir.integer_op("minimum", first + count, size)
    return Loop(body, name, end, first, iterations=min(count, size))
