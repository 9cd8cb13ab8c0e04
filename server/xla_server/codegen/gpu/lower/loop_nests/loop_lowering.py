"""Lowering to loop nests for a GPU, by the first schedule that fits."""

import dataclasses
import math
from collections.abc import Sequence

from xla_server.buffers.code import KernelThunk, Value
from xla_server.codegen.gpu.grid import GridKernel, index_bits
from xla_server.codegen.gpu.repetitions import repetitions
from xla_server.codegen.gpu.schedules.table import ThreadSchedule, scheduled_by
from xla_server.codegen.gpu.stopping import stoppable
from xla_server.codegen.kernel_ir.analysis import counts
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.lower.kernel_thunks import kernel_thunk
from xla_server.codegen.lower.loop_nests import loop_lowering
from xla_server.codegen.lower.loop_nests.loop_kernel import (
    LoopKernel,
    LoopTask,
    evaluated_instructions,
    in_place_pairs,
    maker_of,
)
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.schedules.builders.collapse import collapsed
from xla_server.codegen.schedules.builders.launches.scheduled import Evaluations, evaluations_of
from xla_server.codegen.schedules.builders.loop_builder import Nest
from xla_server.codegen.schedules.reductions.reduction_groups import reductions_of
from xla_server.codegen.trace.graph import Reduction
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import Origins
from xla_server.ir.module import HloInstruction
from xla_server.target.gpu.properties import COUNTED_LANES


def lower_loop(lowering: Lowering, i: HloInstruction) -> Tree:
    """Add one kernel that computes every element of an instruction's result."""
    return loop_lowering.lower_loop(lowering, i, grid_loop_kernel)


def lower_dynamic_update_slice(lowering: Lowering, i: HloInstruction) -> Tree:
    """Copy the operand, unless it may be overwritten, and store the box."""

    def build(name: str, nest: Nest, buffers: Sequence[Value]) -> KernelThunk:
        _, grid = grid_kernel(nest, buffers)
        return grid_thunk(name, grid, buffers, updates=(buffers[-1],))

    return loop_lowering.lower_dynamic_update_slice(lowering, i, build)


def grid_loop_kernel(task: LoopTask) -> LoopKernel:
    """Write the kernel of a task by the schedule that fits.

    Unless the schedule is by rows, results of other dimensions have kernels of their own.
    """
    sizes = dict.fromkeys(value.shape.dimensions for value in task.values)
    schedule, found = _loop_kernel(task)
    if len(sizes) == 1 or schedule.has_rows:
        return found
    parts = [_loop_kernel(_of_dimensions(task, each))[1] for each in sizes]
    evaluated: dict[HloInstruction, float] = {}
    for part in parts:
        for i, times in part.evaluated.items():
            evaluated[i] = evaluated.get(i, 0.0) + times
    thunks = tuple(thunk for part in parts for thunk in part.thunks)
    repeated = tuple(i for part in parts for i in part.repeated_reductions)
    return LoopKernel(task, thunks, evaluated, sum(part.units for part in parts), (), repeated)


def _of_dimensions(task: LoopTask, dimensions: tuple[int, ...]) -> LoopTask:
    """Return the task of the results of these dimensions alone."""
    pairs = zip(task.numbers, task.values, strict=True)
    kept = [(number, value) for number, value in pairs if value.shape.dimensions == dimensions]
    numbers, values = zip(*kept, strict=True)
    return dataclasses.replace(task, numbers=numbers, values=values)


def _loop_kernel(task: LoopTask) -> tuple[ThreadSchedule, LoopKernel]:
    """Return the schedule that fits a task, and the kernel."""
    buffers = list(dict.fromkeys([*task.stored.values(), *task.values]))
    origins: Origins = {}
    make = maker_of(task, buffers, origins)
    nest = Nest(*collapsed(task.dimensions, lambda index: make(index, RULES)), task.target)
    schedule, grid = grid_kernel(nest, buffers)
    pairs = in_place_pairs(nest, buffers) if schedule.reads_first else ()
    thunk = grid_thunk(task.name, grid, buffers, in_place=pairs)
    evaluated = evaluated_instructions(counted(grid, nest), origins)
    repeated: tuple[HloInstruction, ...] = ()
    if schedule.repeats:
        found = (origins.get(each) for each in reductions_of(nest.stores) if _is_same(each, nest))
        repeated = tuple(i for i in found if i is not None)
    return schedule, LoopKernel(task, (thunk,), evaluated, units_of(grid.kernel), (), repeated)


def _is_same(reduction: Reduction, nest: Nest) -> bool:
    """Return whether a reduction is the same for several results of a nest."""
    return not reduction.variables.issuperset(nest.loops)


def grid_kernel(nest: Nest, buffers: Sequence[Value]) -> tuple[ThreadSchedule, GridKernel]:
    """Return the first schedule that fits a nest over these buffers, and its kernel."""
    largest = max(_largest(nest), *(value.shape.element_count for value in buffers), 1)
    schedule, grid = scheduled_by(nest, largest)
    return schedule, fitting_bits(grid)


def fitting_bits(grid: GridKernel) -> GridKernel:
    """Return a kernel whose indices also suffice for its threads, of which there may be more."""
    bits = max(grid.index_bits, index_bits(grid.blocks * grid.threads))
    return dataclasses.replace(grid, index_bits=bits)


def counted(grid: GridKernel, nest: Nest) -> Evaluations:
    """Return the evaluations of each node in a launch; the nest has the `origins`."""
    body = grid.kernel.body
    times = counts.evaluations(body, grid.kernel.items, repetitions(body))
    return evaluations_of(times, nest.origins)


def _largest(nest: Nest) -> int:
    """Return the total iterations of the longest reduction, which kernels may count."""
    ranges = [{*reduction.loops, *reduction.variables} for reduction in reductions_of(nest.stores)]
    return max((math.prod(loop.size for loop in each) for each in ranges), default=0)


def grid_thunk(
    name: str,
    grid: GridKernel,
    arguments: Sequence[Value],
    *,
    in_place: tuple[tuple[Value, Value], ...] = (),
    updates: tuple[Value, ...] = (),
) -> KernelThunk:
    """Return the thunk that launches a kernel on these arguments."""
    return kernel_thunk(
        name,
        stoppable(grid.kernel, len(arguments)),
        arguments,
        in_place=in_place,
        updates=updates,
        launched=lambda simplified: dataclasses.replace(grid, kernel=simplified),
    )


def units_of(kernel: Kernel) -> float:
    """Return the time of a launch in additions; a GPU executes many threads at a time.

    The number of lanes does not depend on the GPU, so that a program has the same kernels on each.
    """
    work = counts.work_of(kernel.body, repetitions(kernel.body))
    return (work.item.time + work.prologue.time) * max(1.0, kernel.items / COUNTED_LANES)
