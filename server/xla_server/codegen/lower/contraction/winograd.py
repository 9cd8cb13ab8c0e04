"""Winograd's convolution F(4x4, 3x3): 16 results from 36 products instead of 144.

A tile of 6x6 inputs and the filter are transformed to values of polynomials at five points and
infinity, multiplied there feature by feature, and transformed back. The error of a finite f32
result is at most 2^-16 of the largest input times the sum of the filter's magnitudes; direct tiles
are more exact by about four bits.

Infinities, NaNs and overflows at one point spoil results that do not depend on it, so tiles with
such results are computed again without the transform.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence

from xla_contract.types.shape import Shape
from xla_server.buffers.code import Value as Array
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Branch, Items, Loop, Names, task_range
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.routine import Operands, function_address
from xla_server.codegen.lower.contraction.convolution_phases import Phase, panel_columns, panels
from xla_server.codegen.lower.contraction.exact_sums import ExactSums
from xla_server.codegen.lower.loop_nests.epilogue import Epilogue, EpilogueKernel, Product
from xla_server.codegen.lower.lowering import Lowering
from xla_server.codegen.routines.contraction import winograd_block
from xla_server.codegen.routines.contraction.product_tiles import tallest, tile_name
from xla_server.codegen.routines.contraction.winograd_transforms import (
    RESULTS,
    SIDE,
    TAPS,
    TRANSFORM_WEIGHTS,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Tiled:
    """A phase cut into tiles of results, and blocks of tiles."""

    phase: Phase

    @property
    def grid(self) -> tuple[int, int]:
        """Tiles along both dimensions."""
        down, across = (-(-line.results // RESULTS) for line in self.phase.lines)
        return down, across

    @property
    def tiles(self) -> int:
        """Tiles of all images."""
        down, across = self.grid
        return self.phase.batch * down * across

    @property
    def runs(self) -> int:
        """Number of runs of tiles in a block, which share one read of the filter."""
        return min(2, -(-self.tiles // tallest(self.phase.target.machine)))

    @property
    def rows(self) -> int:
        """Tiles of a run."""
        return min(tallest(self.phase.target.machine), -(-self.tiles // self.runs))

    @property
    def block(self) -> int:
        """Largest number of tiles of a block."""
        return self.runs * self.rows

    @property
    def blocks(self) -> int:
        """Blocks of tiles."""
        return -(-self.tiles // self.block)

    @property
    def work_items(self) -> int:
        """Work items of the kernel."""
        return min(self.blocks, self.phase.tuning.work_items)

    @property
    def parts(self) -> tuple[int, int, int]:
        """Elements of scratch memory of a work item: transformed inputs, products, one tile."""
        inputs, outputs = self.phase.inputs, self.phase.outputs
        square = SIDE * SIDE
        return (
            square * self.block * inputs,
            square * self.block * outputs,
            square * max(inputs, outputs),
        )

    @property
    def scratch(self) -> int:
        """Elements of scratch memory for all work items."""
        return self.work_items * sum(self.parts)


def fits(phases: Sequence[Phase]) -> bool:
    """Return whether tiles of 6x6 inputs fit a convolution."""
    if len(phases) != 1 or phases[0].kind != "f32" or phases[0].groups > 1:
        return False
    (phase,) = phases
    tuned, positions = phase.tuning, phase.batch * math.prod(line.results for line in phase.lines)
    return (
        len(phase.lines) == 2
        and positions >= tuned.min_winograd_positions
        and phase.inputs * phase.outputs <= positions * tuned.max_winograd_pairs
        and all(
            (line.taps, line.step, line.reach, line.apart) == (TAPS, 1, 1, 1)
            and line.results >= tuned.min_winograd_results
            for line in phase.lines
        )
        and min(phase.inputs, phase.outputs) >= tuned.min_winograd_features
    )


def add_weights(lowering: Lowering, phase: Phase, kernel: Array) -> Array:
    """Add the kernel that transforms weights; a work item is an input feature."""
    square = 4 * phase.inputs * phase.outputs
    apart = square + winograd_block.GAP_BYTES
    shape = Shape.array(kernel.shape.element_type, (SIDE * SIDE, apart // 4))
    points = lowering.new(shape, f"{kernel.name}.points")
    down, across = phase.lines
    first = (down.tap * TAPS + across.tap) * square
    building, names = EpilogueKernel(), Names()
    source, target = map(ir.Address, building.buffers((kernel,), points))
    with Items(building.body, phase.inputs, "item") as items:
        feature = items.axis
        for column, columns, count in panels(phase):
            ahead = feature * (4 * phase.outputs)
            read = items.let(names("read"), source + (first + 4 * column) + ahead)
            ahead = feature * (4 * columns)
            written = items.let(names("written"), target + 4 * column * phase.inputs + ahead)
            with Loop(items, names("panel"), count) as each:
                operands: Operands = {
                    "source": read + each.axis * (4 * columns),
                    "down": down.tap_step * TAPS * square,
                    "across": across.tap_step * square,
                    "target": written + each.axis * (4 * columns * phase.inputs),
                    "target_down": SIDE * apart,
                    "target_across": apart,
                    "count": columns,
                }
                each.call(TRANSFORM_WEIGHTS, operands)
    building.add(lowering, points.name, Effort.UNOPTIMISED)
    return points


def add_tiles(
    made: Product,
    tiled: Tiled,
    operands: tuple[Array, Array],
    epilogue: Epilogue,
    exact: ExactSums | None,
) -> None:
    """Add the kernel of tiles, with their epilogue; `exact` recomputes results that are NaN."""
    base, kernel = operands
    shape = Shape.array(made.value.shape.element_type, (tiled.scratch,))
    memory = made.lowering.new(shape, f"{made.value.name}.tiles")
    points = add_weights(made.lowering, tiled.phase, kernel)
    building = EpilogueKernel(epilogue)
    buffers = building.buffers((base, points, kernel), made.value)
    source, weights, taps, result = map(ir.Address, buffers)
    scratch = ir.Address(building.buffer(memory, ir.Usage.SCRATCH))
    with Items(building.body, tiled.work_items, "item") as items:
        workspace = items.let("workspace", scratch + items.axis * (4 * sum(tiled.parts)))
        first, last = task_range(items.axis, tiled.blocks, tiled.work_items)
        with Loop(
            items, "block", last, first, iterations=tiled.blocks / tiled.work_items
        ) as blocks:
            begin = blocks.let("begin", blocks.axis * tiled.block)
            limit = ir.integer_op("minimum", begin + tiled.block, tiled.tiles)
            end = blocks.let("end", limit)
            arguments: Operands = {
                **{"begin": begin, "end": end, "source": source, "weights": weights},
                **{"taps": taps, "result": result, "memory": workspace},
                **_sizes(tiled),
            }
            blocks.call(winograd_block.BLOCK, arguments)
            if epilogue.loops or exact:
                with Loop(blocks, "number", end, begin, iterations=tiled.block) as numbers:
                    _emit_rows(tiled, numbers, epilogue, exact, (source, taps, result))
    building.add(made.lowering, made.value.name, Effort.UNOPTIMISED)


def _emit_rows(
    tiled: Tiled,
    body: Loop,
    epilogue: Epilogue,
    exact: ExactSums | None,
    addresses: tuple[ir.Expression, ir.Expression, ir.Expression],
) -> None:
    """Append exact sums and epilogue of a tile's results, row by row."""
    tiles_down, tiles_across = tiled.grid
    down, across = tiled.phase.lines
    columns = 0, tiled.phase.outputs
    x = body.let("x", body.axis % tiles_across * RESULTS)
    rest = body.let("rest", body.axis // tiles_across)
    y = body.let("y", rest % tiles_down * RESULTS)
    above = body.let("above", rest // tiles_down * down.results + y)
    height = ir.integer_op("minimum", ir.whole(down.results) - y, RESULTS)
    with Loop(body, "a", height, iterations=RESULTS) as rows:
        first = rows.let("first", (above + rows.axis) * across.results + x)
        width = ir.integer_op("minimum", ir.whole(across.results) - x, RESULTS)
        last = rows.let("last", first + width)
        if exact:
            with Branch(rows, _is_at_edge(tiled, y, x)) as edge:
                exact.emit(edge, addresses, (first, last), columns)
        epilogue.emit(rows, (first, last), columns)


def _is_at_edge(tiled: Tiled, y: ir.Expression, x: ir.Expression) -> ir.Expression:
    """Return whether windows of a tile may leave the input."""
    tests: list[ir.Expression] = []
    for begin, line in zip((y, x), tiled.phase.lines, strict=True):
        end = ir.plus(begin, RESULTS + 2)
        tests += [ir.condition("eq", begin, 0), ir.condition("gt", end, line.results)]
    return functools.reduce(lambda a, b: ir.condition("bit_or", a, b), tests)


def _sizes(tiled: Tiled) -> Operands:
    """Return the operands of a block besides its range and addresses."""
    phase = tiled.phase
    down, across = phase.lines
    square = 4 * phase.inputs * phase.outputs
    *_, (_, rest, _) = panels(phase)
    columns = panel_columns(phase)
    widths = min(phase.outputs, columns), rest
    tile, narrow = (tile_name(phase.target.machine, "f32", tiled.rows, width) for width in widths)
    return {
        "grid": winograd_block.Grid(tiled.block, tiled.rows, *tiled.grid, columns),
        "sizes": winograd_block.Image(
            height=down.size,
            width=across.size,
            top_start=down.start,
            left_start=across.start,
            results_down=down.results,
            results_across=across.results,
            inputs=phase.inputs,
            outputs=phase.outputs,
        ),
        "steps": winograd_block.Taps(
            first=(down.tap * TAPS + across.tap) * square,
            down=down.tap_step * TAPS * square,
            across=across.tap_step * square,
        ),
        "tile": function_address(tile),
        "narrow_tile": function_address(narrow),
    }
