"""Kernels of loop nests that are written once for equal instructions of a program."""

import dataclasses
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from xla_server.buffers.code import CANCELLATION, KernelThunk, Value
from xla_server.codegen.lower.loop_nests.loop_kernel import LoopKernel, LoopTask
from xla_server.codegen.lower.lowering import Lowering
from xla_server.ir.module import HloInstruction

Write: TypeAlias = Callable[[LoopTask], LoopKernel]
"""Writes the kernel of a task."""

T = TypeVar("T")


def written_kernel(lowering: Lowering, task: LoopTask, write: Write) -> LoopKernel:
    """Return the kernel of a task, written or that of an equal one; raises as `write` does.

    Tasks are equal that differ in names and memory alone: a layer that a model repeats is traced
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
    """Return what the kernel of a task depends on; None where that is more than it has."""
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
    """Return whether a kernel has the values and instructions of its task alone."""
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
            name=task.name + thunk.name.removeprefix(known.task.name),
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
