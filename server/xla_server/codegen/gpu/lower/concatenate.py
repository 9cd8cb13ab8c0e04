"""Lowering of concatenates, and of fusions that end in one, for a GPU."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Final

from xla_contract.ops.control.fusion import FusionKind
from xla_contract.types.opcode import Opcode
from xla_server.buffers.code import KernelThunk, Value
from xla_server.codegen.gpu.lower.contraction.dot import lower_product_fusion
from xla_server.codegen.gpu.lower.loop_nests.loop_lowering import (
    counted,
    fitting_bits,
    grid_loop_kernel,
    grid_thunk,
    units_of,
)
from xla_server.codegen.gpu.schedules.boxes import box_kernel
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.lower.loop_nests import loop_lowering
from xla_server.codegen.lower.loop_nests.concatenate import Division, boxes_of
from xla_server.codegen.lower.loop_nests.loop_kernel import (
    LoopKernel,
    LoopTask,
    Maker,
    evaluated_instructions,
    maker_of,
)
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.lower.recomputation import LoopNestCosts
from xla_server.codegen.schedules.builders.collapse import Make, collapsed
from xla_server.codegen.schedules.builders.loop_builder import Nest
from xla_server.codegen.schedules.nests.pieces import Box
from xla_server.codegen.schedules.reductions.reduction_groups import reductions_of
from xla_server.codegen.trace.graph import Node, Reduction, Store
from xla_server.codegen.trace.tracer import Index, Origins
from xla_server.ir.analysis.affine import Affine
from xla_server.ir.module import HloInstruction
from xla_server.target.gpu.properties import ACCESS_BYTES, MAX_RUN, SECTOR_BYTES, WARP
from xla_server.target.target import Target

MAX_BOXES: Final = 64
"""Largest number of operands in one launch: each has its code, and each thread tests for it."""


def lower_concatenate(lowering: Lowering, i: HloInstruction) -> Tree:
    """Lower a concatenate, or a loop fusion whose result is one."""
    return loop_lowering.lower_loop(lowering, i, joined_kernel)


def lower_fusion(lowering: Lowering, i: HloInstruction) -> Tree:
    """Lower a fusion to one kernel, or to a library's product."""
    if i.attributes.kind is FusionKind.OUTPUT:
        return lower_product_fusion(lowering, i)
    return loop_lowering.lower_loop(lowering, i, joined_kernel)


def grid_costs(target: Target) -> LoopNestCosts:
    """Return the cost model of fusion, by the kernels of a GPU."""
    return LoopNestCosts(target, joined_kernel)


def joined_kernel(task: LoopTask) -> LoopKernel:
    """Write the kernel of a concatenate's operands, or of any other task."""
    i = task.instruction
    root = i.called[0].root if i.opcode is Opcode.FUSION else i
    is_joined = task.root is i and root.opcode is Opcode.CONCATENATE
    parts = [n for n, part in enumerate(root.operands) if is_joined and part.shape.element_count]
    if len(parts) < 2:
        return grid_loop_kernel(task)
    boxes = boxes_of(Division(root, {}, parts))
    (result,) = task.values
    buffers = list(dict.fromkeys([*task.stored.values(), result]))
    origins: Origins = {}
    make = maker_of(task, buffers, origins)
    thunks: list[KernelThunk] = []
    kernels: list[Kernel] = []
    evaluated: dict[HloInstruction, float] = {}
    for first in range(0, len(boxes), MAX_BOXES):
        found = boxes[first : first + MAX_BOXES]
        nests = _nests(found, root.attributes.dimension, make, task)
        grid = fitting_bits(box_kernel(nests, _largest(buffers)))
        updates = (result,) if len(boxes) > MAX_BOXES else ()
        thunks.append(grid_thunk(task.name, grid, buffers, updates=updates))
        kernels.append(grid.kernel)
        for each, times in evaluated_instructions(counted(grid, nests[0]), origins).items():
            evaluated[each] = evaluated.get(each, 0.0) + times
    return LoopKernel(task, tuple(thunks), evaluated, sum(map(units_of, kernels)), ())


def _largest(buffers: Sequence[Value]) -> int:
    return max(value.shape.element_count for value in buffers)


def _nests(boxes: Sequence[Box], dimension: int, make: Maker, task: LoopTask) -> list[Nest]:
    """Return a nest for each box, but one for neighbours that are narrow."""
    origins: list[Node | Reduction] = []

    def nest(sizes: Sequence[int], made: Make) -> Nest:
        return Nest(*collapsed(sizes, made), task.target, origins=origins)

    def of_box(box: Box) -> Nest:
        def made(index: Index) -> Sequence[Store]:
            return make(tuple(at + low for at, (low, _) in zip(index, box, strict=True)))

        return nest([high - low for low, high in box], made)

    def of_rows(group: Sequence[Box]) -> Nest:
        inside = [
            tuple(map(Affine, at))
            for box in group
            for at in itertools.product(*itertools.starmap(range, box[dimension:]))
        ]

        def made(index: Index) -> Sequence[Store]:
            return [store for at in inside for store in make((*index, *at))]

        return nest([high for _, high in group[0][:dimension]], made)

    nests: list[Nest] = []
    width = task.values[0].shape.element_type.byte_width
    for group in _narrow_neighbours(boxes, dimension, width):
        shared = of_rows(group) if len(group) > 1 else None
        if shared is None or reductions_of(shared.stores):
            nests += map(of_box, group)
        else:
            nests.append(shared)
    return nests


def _narrow_neighbours(boxes: Sequence[Box], dimension: int, width: int) -> Iterator[list[Box]]:
    """Yield boxes in groups of which a thread stores whole rows, or of one box.

    Threads of a warp would store each element of a box narrower than an access to another sector.
    """
    group: list[Box] = []
    used = 0
    rows = math.prod(high for _, high in boxes[0][:dimension])
    most = min(SECTOR_BYTES, MAX_RUN * width) if rows >= WARP else 0
    for box in boxes:
        own = math.prod(high - low for low, high in box[dimension:]) * width
        if group and (own >= ACCESS_BYTES or used + own > most):
            yield group
            group, used = [], 0
        group.append(box)
        used = used + own if own < ACCESS_BYTES else most
    yield group
