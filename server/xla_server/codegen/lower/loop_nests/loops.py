"""Lowering of everything that a loop nest computes: single operations and fusions of them."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from xla_contract.types.shape import Shape
from xla_server.buffers.code import CopyThunk, KernelThunk, Value
from xla_server.codegen.loops.builders.collapse import collapsed
from xla_server.codegen.loops.builders.loop_builder import Nest
from xla_server.codegen.loops.nests.rows import row_kernel
from xla_server.codegen.lower.kernel_thunks import kernel_thunk
from xla_server.codegen.lower.loop_nests.loop_kernel import (
    LoopTask,
    cost_of_evaluations,
    loop_kernel,
)
from xla_server.codegen.lower.loop_nests.written_kernels import Write, written_kernel
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.trace.graph import Store
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.codegen.trace.movement import start_indices
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import Index, Tracer
from xla_server.fusion.analysis.fusible import is_scalar_constant
from xla_server.ir.affine import linear
from xla_server.ir.explicit_stack import result_of
from xla_server.ir.module import HloInstruction

BuildUpdate: TypeAlias = Callable[[str, Nest, Sequence[Value]], KernelThunk]
"""Builds the thunk, of a name, that stores into a part of the last of its arguments."""


def lower_loop(lowering: Lowering, instruction: HloInstruction, write: Write = loop_kernel) -> Tree:
    """One kernel that computes every element of an instruction's result."""
    values = lowering.results(instruction)
    if all(value.shape.element_count for value in values):
        operands = kernel_operands(lowering, instruction)
        add_loop(lowering, instruction, operands, values, write)
    return values if instruction.shape.is_tuple else values[0]


def add_loop(
    lowering: Lowering,
    instruction: HloInstruction,
    operands: dict[HloInstruction, Value],
    values: Sequence[Value],
    write: Write = loop_kernel,
) -> None:
    """Add the kernel of an instruction over these operands, writing these values."""
    is_repeated = lowering.loop_depth > 0
    task = LoopTask.of(instruction, operands, values, lowering.target, is_repeated=is_repeated)
    add_kernel(lowering, task, write)


def add_kernel(lowering: Lowering, task: LoopTask, write: Write) -> None:
    """Add the kernel of a task, or those that share it, and note what it costs."""
    kernel = written_kernel(lowering, task, write)
    for thunk in kernel.thunks:
        lowering.add(thunk)
    lowering.costs[task.instruction] = cost_of_evaluations(kernel.evaluated)


def kernel_operands(lowering: Lowering, instruction: HloInstruction) -> dict[HloInstruction, Value]:
    """The operands that a kernel reads from buffers: all but constants of one element."""
    return _read(lowering, instruction.operands)


def _read(lowering: Lowering, operands: Iterable[HloInstruction]) -> dict[HloInstruction, Value]:
    return {each: lowering.array(each) for each in operands if not is_scalar_constant(each)}


def array_shapes(shape: Shape) -> tuple[Shape, ...]:
    """The arrays of a result: itself, or the elements of a flat tuple."""
    return shape.tuple_shapes if shape.is_tuple else (shape,)


def _update_by_rows(name: str, nest: Nest, buffers: Sequence[Value]) -> KernelThunk:
    return kernel_thunk(name, row_kernel(nest).kernel, buffers, updates=(buffers[-1],))


def lower_dynamic_update_slice(
    lowering: Lowering, i: HloInstruction, build: BuildUpdate = _update_by_rows
) -> Tree:
    """The operand copied, which is nothing where it may be overwritten, and the box stored."""
    result = lowering.new(i.shape, i.name)
    if not i.shape.element_count:
        return result
    lowering.add(CopyThunk(result, lowering.array(i.operands[0])))
    update = i.operands[1]
    if not update.shape.element_count:
        return result
    operands = _read(lowering, i.operands[1:])
    buffers = list(dict.fromkeys([*operands.values(), result]))
    numbers = {operand: buffers.index(value) for operand, value in operands.items()}
    sizes = i.shape.dimensions

    def make(index: Index) -> Sequence[Store]:
        tracer = Tracer(RULES, numbers)
        starts = result_of(start_indices(tracer, i, 2, len(sizes)))
        moved = tuple(
            position + tracer.clamped(starts[d], sizes[d] - update.shape.dimensions[d])
            for d, position in enumerate(index)
        )
        kernel_type = KERNEL_TYPE[i.shape.element_type]
        return [
            Store(len(buffers) - 1, kernel_type, linear(moved, sizes), tracer.value(update, index))
        ]

    nest = Nest(*collapsed(update.shape.dimensions, make), lowering.target)
    lowering.add(build(i.name, nest, buffers))
    return result
