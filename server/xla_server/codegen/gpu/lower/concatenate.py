"""Lowering of concatenates, and of fusions that end in one, for a GPU."""

from collections.abc import Sequence
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
from xla_server.codegen.schedules.builders.collapse import collapsed
from xla_server.codegen.schedules.builders.loop_builder import Nest
from xla_server.codegen.schedules.nests.pieces import Box
from xla_server.codegen.trace.graph import Node, Reduction, Store
from xla_server.codegen.trace.tracer import Index, Origins
from xla_server.ir.module import HloInstruction
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
        nests = _nests(boxes[first : first + MAX_BOXES], make, task.target)
        grid = fitting_bits(box_kernel(nests, _largest(buffers)))
        updates = (result,) if len(boxes) > MAX_BOXES else ()
        thunks.append(grid_thunk(task.name, grid, buffers, updates=updates))
        kernels.append(grid.kernel)
        for each, times in evaluated_instructions(counted(grid, nests[0]), origins).items():
            evaluated[each] = evaluated.get(each, 0.0) + times
    return LoopKernel(task, tuple(thunks), evaluated, sum(map(units_of, kernels)), ())


def _largest(buffers: Sequence[Value]) -> int:
    return max(value.shape.element_count for value in buffers)


def _nests(boxes: Sequence[Box], make: Maker, target: Target) -> list[Nest]:
    origins: list[Node | Reduction] = []
    nests = []
    for box in boxes:

        def made(index: Index, box: Box = box) -> Sequence[Store]:
            return make(tuple(at + low for at, (low, _) in zip(index, box, strict=True)))

        sizes = [high - low for low, high in box]
        nests.append(Nest(*collapsed(sizes, made), target, origins=origins))
    return nests
