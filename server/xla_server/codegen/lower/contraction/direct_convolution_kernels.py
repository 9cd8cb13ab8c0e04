"""Kernels of direct convolution, with tiles of results in registers.

They read the input block by block, directly or from a padded copy of the block; sizes and strides
of a block are operands of a routine.
"""

import math
from collections.abc import Sequence

from xla_contract.types.shape import Shape
from xla_server.buffers.code import Value as Array
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Items, Loop, Names, task_range
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.routine import Operands, Word, function_address
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.contraction.convolution_phases import (
    Phase,
    panel_columns,
    panels,
    scratch,
    tiles,
)
from xla_server.codegen.lower.contraction.exact_sums import UNBOUNDED, ExactSums
from xla_server.codegen.lower.loop_nests.epilogue import Ends, Epilogue, EpilogueKernel, Product
from xla_server.codegen.routines.contraction.direct_block import (
    BLOCK,
    Features,
    SpatialDimensions,
    SpatialSizes,
    Sums,
    TapLoop,
    Tiles,
)
from xla_server.codegen.routines.contraction.product_tiles import LEVELS, TileForm, tile_name
from xla_server.ir.analysis.affine import dense_strides


def add_phases(
    made: Product,
    phases: Sequence[Phase],
    operands: tuple[Array, Array],
    epilogue: Epilogue,
    exact: ExactSums | None,
) -> None:
    """Add the kernel of all phases of an input and weights, with the epilogue of each block.

    `exact` recomputes results of a block that are NaN.
    """
    base, kernel = operands
    packed = add_packing(made, phases[0], kernel) if phases[0].is_packed else kernel
    # No other phase has more results than the first.
    lead = phases[0]
    blocks = -(-lead.lines[0].results // lead.block)
    box_bytes = max(phase.box_elements for phase in phases) * lead.width
    building = EpilogueKernel(epilogue)
    source, weights, result = map(ir.Address, building.buffers((base, packed), made.value))
    original = ir.Address(building.buffer(kernel, ir.Usage.READ)) if exact else weights
    box: int | ir.Expression = 0
    with Items(building.body, lead.work_items, "item") as items:
        if size := scratch(phases):
            shape = Shape.array(made.value.shape.element_type, (size,))
            boxes = made.lowering.new(shape, f"{made.value.name}.box")
            memory = ir.Address(building.buffer(boxes, ir.Usage.WRITE))
            box = items.let("box", memory + items.axis * box_bytes)
        elif box_bytes:
            box = ir.Address(building.stack_array("box", box_bytes))
        first, last = task_range(items.axis, lead.tasks, lead.work_items)
        with Loop(items, "task", last, first, iterations=lead.tasks / lead.work_items) as tasks:
            block = tasks.let("block", tasks.axis % blocks * lead.block)
            image = tasks.let("image", tasks.axis // blocks)
            arguments: Operands = {"source": source, "weights": weights, "result": result}
            for phase in phases:
                own = {"image": image, "box": 0 if phase.is_inside else box}
                tasks.call(BLOCK, {**arguments, **own, **_operands(phase, block)})
            columns = 0, lead.outputs * lead.groups
            if exact:
                rows = _rows(lead, image, _first_result(lead, block), block)
                exact.emit(tasks, (source, original, result), rows, columns)
            epilogue.emit(tasks, _rows(lead, image, block, block), columns)
    building.add(made.lowering, made.value.name, Effort.UNOPTIMISED)


def _first_result(phase: Phase, block: ir.Value) -> ir.Expression:
    """Return the first result of a block; a line's last block overlaps with the one before."""
    if len(phase.lines) > 1:
        return block
    # The last block begins early enough to be whole, in a shorter phase one earlier.
    earlier = max(phase.lines[0].results - phase.block - 1, 0)
    return ir.integer_op("minimum", block, earlier)


def _rows(phase: Phase, image: ir.Value, start: ir.Expression, block: ir.Value) -> Ends:
    """Return the rows of the whole result from `start` to the end of a block."""
    first, *others = phase.lines
    row = math.prod(line.whole for line in others)
    before = image * first.whole
    end = ir.integer_op("minimum", (block + phase.block) * first.apart, first.whole)
    return (before + start * first.apart) * row, (before + end) * row


def add_packing(made: Product, phase: Phase, weights: Array) -> Array:
    """Add the kernel that packs panels, a work item per row of weights; return the panels."""
    packed = made.lowering.new(weights.shape, f"{made.producer.name}.panels")
    kind, features = Type(phase.kind), phase.outputs * phase.groups
    building, names = EpilogueKernel(), Names()
    source, target = building.buffers((weights,), packed)
    with (
        Items(building.body, phase.depth, "d") as items,
        Loop(items, "group", phase.groups) as groups,
    ):
        for column, columns, count in panels(phase):
            start = groups.axis * (phase.depth * phase.outputs) + column * phase.depth
            with Loop(groups, names("panel"), count) as each:
                ahead = items.axis * columns + each.axis * (columns * phase.depth)
                to = each.let(names("to"), start + ahead)
                read = items.axis * features + groups.axis * phase.outputs + column
                at = each.let(names("at"), read + each.axis * columns)
                with Loop(each, names("c"), columns) as inner:
                    c = inner.axis
                    inner.store(target, kind, to + c, ir.Load(source, kind, at + c))
    building.add(made.lowering, packed.name, Effort.OPTIMISED)
    return packed


def _extents(phase: Phase) -> list[int]:
    """Return the number of input positions that a block reads, along each dimension."""
    return [line.size for line in phase.lines] if phase.is_inside else phase.box


def _operands(phase: Phase, block: ir.Value) -> Operands:
    """Return the routine's operands for a block: its input, results and sizes."""
    down, across, high = _results(phase, block)
    return {
        "down": down,
        "across": across,
        "high": high,
        "space": _space(phase),
        "features": _features(phase),
        "sums": _sums(phase),
        "tiles": _tiles(phase),
    }


def _results(phase: Phase, block: ir.Value) -> tuple[Word, Word, Word]:
    """Return a block's first result in the first and last dimension, and its size in the first."""
    first = phase.lines[0].results
    if len(phase.lines) == 1:
        # The last block begins earlier, and repeats some results.
        return 0, ir.integer_op("minimum", block, first - phase.block), 1
    return block, 0, ir.integer_op("minimum", phase.block, ir.whole(first) - block)


def _space(phase: Phase) -> SpatialDimensions:
    """Return the dimensions of a phase, padded to three by trivial ones before the last."""
    *others, inner = (
        SpatialSizes(d.size, d.start, d.step, extent, d.whole, d.results, d.first, d.apart)
        for d, extent in zip(phase.lines, _extents(phase), strict=True)
    )
    missing = SpatialSizes(size=1, start=0, step=1, extent=1, whole=1, results=1, first=0, apart=1)
    outer, middle = (*others, missing, missing)[:2]
    pixel, to_place = phase.pitch * phase.width, phase.outputs * phase.groups * phase.width
    return SpatialDimensions(outer, middle, inner, pixel, to_place)


def _features(phase: Phase) -> Features:
    width, outputs, columns = phase.width, phase.outputs, panel_columns(phase)
    count, rest = divmod(outputs, columns)
    # Rows of a panel are contiguous, before the next panel.
    between = phase.depth if phase.is_packed else 1
    features = outputs * phase.groups
    return Features(
        groups=phase.groups,
        group_read=phase.inputs * width,
        group_weights=outputs * between * width,
        group_written=outputs * width,
        panels=count,
        columns=columns,
        panel_read=columns * width if phase.is_depthwise else 0,
        panel_weights=columns * between * width,
        panel_written=columns * width,
        rest=rest * phase.positions,
        rest_weights=count * columns * between * width,
        row=(columns if phase.is_packed else features) * width,
        rest_row=(rest if phase.is_packed else features) * width,
    )


def _sums(phase: Phase) -> Sums:
    """Return the loops of a result's sum: over the window, and the input features of a group."""
    unit = phase.pitch * phase.width
    positions = [unit * step for step in dense_strides(_extents(phase)).values()]
    windows = dense_strides([line.window for line in phase.lines])
    taps = [phase.inputs * step for step in windows.values()]
    loops = [
        TapLoop(line.taps, line.reach * position, line.tap_step * step)
        for line, position, step in zip(phase.lines, positions, taps, strict=True)
    ]
    first = sum(line.tap * step for line, step in zip(phase.lines, taps, strict=True))
    loops = _joined([*loops, TapLoop(phase.inputs, phase.width, 1)])
    return Sums(first, *loops)


def _tiles(phase: Phase) -> Tiles:
    """Return the tiles of a row of results, with the routines that compute them."""
    tall, tall_count, low_count = tiles(phase.target.machine, -(-phase.row // phase.positions))
    columns = panel_columns(phase)
    count, rest = divmod(phase.outputs * phase.positions, columns)

    def function(rows: int, columns: int, *, is_called: bool) -> int | ir.Expression:
        if not is_called:
            return 0
        name = tile_name(phase.target.machine, phase.kind, rows, columns, phase.form)
        return function_address(name)

    return Tiles(
        phase.positions,
        phase.row if phase.form is TileForm.FILTER else UNBOUNDED,
        tall,
        tall_count,
        low_count,
        tile=function(tall, columns, is_called=count > 0),
        low_tile=function(tall - 1, columns, is_called=count > 0 and low_count > 0),
        rest_tile=function(tall, rest, is_called=rest > 0),
        low_rest_tile=function(tall - 1, rest, is_called=rest > 0 and low_count > 0),
    )


def _joined(loops: Sequence[TapLoop]) -> list[TapLoop]:
    """Merge loops that advance by one stride; pad to the number of loops of a tile."""
    joined: list[TapLoop] = []
    for iterations, left, right in loops:
        if iterations == 1:
            continue
        if joined and joined[-1][1:] == (iterations * left, iterations * right):
            iterations *= joined.pop().iterations
        joined.append(TapLoop(iterations, left, right))
    return [TapLoop(1, 0, 0)] * (LEVELS - len(joined)) + joined
