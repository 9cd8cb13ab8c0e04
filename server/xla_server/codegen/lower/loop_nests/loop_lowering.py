"""Lowering of operations, and fusions of them, to loop nests.

Kernels are written once for equal instructions of a program.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from xla_server.buffers.code import CANCELLATION, KernelThunk, Value
from xla_server.codegen.lower.kernel_thunks import kernel_thunk
from xla_server.codegen.lower.loop_nests.loop_kernel import (
    LoopKernel,
    LoopTask,
    cost_of_evaluations,
    loop_kernel,
)
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.schedules.builders.collapse import collapsed
from xla_server.codegen.schedules.builders.loop_builder import Nest
from xla_server.codegen.schedules.nests.rows import row_kernel
from xla_server.codegen.trace.graph import Store
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.codegen.trace.movement import start_indices
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import Index, Tracer
from xla_server.fusion.analysis.fusible import is_scalar_constant
from xla_server.ir.analysis.affine import linear
from xla_server.ir.explicit_stack import result_of
from xla_server.ir.module import HloInstruction

Write: TypeAlias = Callable[[LoopTask], LoopKernel]
"""Writes the kernel of a task."""

BuildUpdate: TypeAlias = Callable[[str, Nest, Sequence[Value]], KernelThunk]
"""Builds the thunk, of a name, that stores into a box of its last argument."""

T = TypeVar("T")


def lower_loop(lowering: Lowering, instruction: HloInstruction, write: Write = loop_kernel) -> Tree:
    """Add one kernel that computes every element of an instruction's result."""
    values = lowering.results(instruction)
    if all(value.shape.element_count for value in values):
        add_loops(lowering, instruction, values, write)
    return values if instruction.shape.is_tuple else values[0]


def add_loops(lowering: Lowering, i: HloInstruction, values: Sequence[Value], write: Write) -> None:
    """Add the kernels of an instruction that write these values, and their costs."""
    operands, is_repeated = kernel_operands(lowering, i.operands), lowering.loop_depth > 0
    task = LoopTask.of(i, operands, values, lowering.target, is_repeated=is_repeated)
    kernel = _written_kernel(lowering, task, write)
    for thunk in kernel.thunks:
        lowering.add(thunk)
    lowering.costs[i] = cost_of_evaluations(kernel.evaluated)


def kernel_operands(
    lowering: Lowering, operands: Sequence[HloInstruction]
) -> dict[HloInstruction, Value]:
    """The operands that a kernel reads from buffers: all but constants of one element."""
    return {each: lowering.array(each) for each in operands if not is_scalar_constant(each)}


def _update_by_rows(name: str, nest: Nest, buffers: Sequence[Value]) -> KernelThunk:
    return kernel_thunk(name, row_kernel(nest).kernel, buffers, updates=(buffers[-1],))


def lower_dynamic_update_slice(
    lowering: Lowering, i: HloInstruction, build: BuildUpdate = _update_by_rows
) -> Tree:
    """Copy the operand, unless it may be overwritten, and store the box."""
    result = lowering.new(i.shape, i.name)
    if not i.shape.element_count:
        return result
    lowering.copy(result, lowering.array(i.operands[0]))
    update = i.operands[1]
    if not update.shape.element_count:
        return result
    operands = kernel_operands(lowering, i.operands[1:])
    buffers = list(dict.fromkeys([*operands.values(), result]))
    numbers = {operand: buffers.index(value) for operand, value in operands.items()}

    def make(index: Index) -> Sequence[Store]:
        tracer = Tracer(RULES, numbers)
        starts = result_of(start_indices(tracer, i, 2, update.shape.dimensions))
        moved = [position + start for position, start in zip(index, starts, strict=True)]
        offset, kernel_type = linear(moved, i.shape.dimensions), KERNEL_TYPE[i.shape.element_type]
        return [Store(len(buffers) - 1, kernel_type, offset, tracer.value(update, index))]

    nest = Nest(*collapsed(update.shape.dimensions, make), lowering.target)
    lowering.add(build(i.name, nest, buffers))
    return result


def _written_kernel(lowering: Lowering, task: LoopTask, write: Write) -> LoopKernel:
    """Return the kernel of a task, new or of an equal task; raises as `write` does.

    Tasks are equal if they differ only in names and memory: a repeated layer of a model is traced
    and scheduled once.
    """
    key = _key(lowering, task, write)
    if key is None:
        return write(task)
    known = lowering.kernels.get(key)
    if known is not None:
        return _of_task(known, task)
    kernel = write(task)
    if _names_nothing_else(kernel):
        lowering.kernels[key] = kernel
    return kernel


def _key(lowering: Lowering, task: LoopTask, write: Write) -> object:
    """Return a key of all that the kernel of a task depends on; None if it depends on more."""
    i, function = task.instruction, lowering.equal.function(task.instruction)
    if function is None or task.root is not i or not task.stored.keys() <= {*i.operands}:
        return None
    numbers = {value: number for number, value in enumerate(_buffers(task))}
    read = tuple(numbers[task.stored[part]] if part in task.stored else None for part in i.operands)
    written = tuple(numbers[value] for value in task.values)
    shapes = tuple(value.shape for value in numbers)
    return write, function, read, written, shapes, task.numbers, task.is_repeated


def _buffers(task: LoopTask) -> list[Value]:
    return list(dict.fromkeys([*task.stored.values(), *task.values, CANCELLATION]))


def _instructions(task: LoopTask) -> list[HloInstruction]:
    i = task.instruction
    return [i, *i.operands, *(part for called in i.called for part in called.instructions)]


def _names_nothing_else(kernel: LoopKernel) -> bool:
    """Return whether a kernel refers only to values and instructions of its task."""
    counted = {*kernel.evaluated, *kernel.prologue_reductions, *kernel.repeated_reductions}
    values = {value for thunk in kernel.thunks for value in thunk.arguments}
    return counted <= {*_instructions(kernel.task)} and values <= {*_buffers(kernel.task)}


def _of_task(known: LoopKernel, task: LoopTask) -> LoopKernel:
    """Return the kernel of a task from that of an equal one."""
    values = dict(zip(_buffers(known.task), _buffers(task), strict=True))
    parts = dict(zip(_instructions(known.task), _instructions(task), strict=True))

    def moved(thunk: KernelThunk) -> KernelThunk:
        return dataclasses.replace(
            thunk,
            name=task.name,
            arguments=_all(thunk.arguments, values),
            reads=_all(thunk.reads, values),
            writes=_all(thunk.writes, values),
            in_place=tuple((values[new], values[old]) for new, old in thunk.in_place),
            updates=_all(thunk.updates, values),
        )

    return LoopKernel(
        task,
        tuple(map(moved, known.thunks)),
        {parts[i]: times for i, times in known.evaluated.items()},
        known.units,
        _all(known.prologue_reductions, parts),
        _all(known.repeated_reductions, parts),
    )


def _all(found: tuple[T, ...], others: dict[T, T]) -> tuple[T, ...]:
    return tuple(others[each] for each in found)
