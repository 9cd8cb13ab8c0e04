"""The loop nest over the elements of an instruction, with counts of its evaluations."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.buffers.code import KernelThunk, Value
from xla_server.codegen.functions.bits.bitwise import INSTRUCTIONS
from xla_server.codegen.functions.called_functions import CALLED, WITH_BRANCHES
from xla_server.codegen.instructions.intrinsics import ARITHMETIC
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.expressions import Apply as ApplyExpression
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Let
from xla_server.codegen.kernel_ir.walk import walk
from xla_server.codegen.lower.kernel_thunks import kernel_thunk
from xla_server.codegen.schedules.builders.launches.chunks import calls_of
from xla_server.codegen.schedules.builders.launches.scheduled import Evaluations
from xla_server.codegen.schedules.builders.loop_builder import Nest
from xla_server.codegen.schedules.builders.stored_nodes import all_nodes, prologue_of
from xla_server.codegen.schedules.reductions.reduction_groups import reductions_of
from xla_server.codegen.schedules.table import ElementGraph, scheduled_by
from xla_server.codegen.trace.graph import Load, Store, as_stored
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import Index, Origins, Rule, Tracer
from xla_server.evaluator.cost_analysis import Cost
from xla_server.evaluator.evaluation_cost import evaluation_cost
from xla_server.ir.analysis.affine import Affine, linear, multi_index
from xla_server.ir.module import HloInstruction
from xla_server.target.target import Target


@dataclasses.dataclass(frozen=True, slots=True)
class LoopTask:
    """The task of one kernel: compute every element of the results of `root` into `values`.

    `root` is `instruction` itself or, if that is a fusion, an instruction inside of it. `numbers`
    selects the results that the kernel computes. `stored` has the values that it reads: operands,
    and inner instructions that earlier kernels have stored. `is_repeated`: the kernel runs many
    times, in a loop.
    """

    instruction: HloInstruction
    root: HloInstruction
    stored: Mapping[HloInstruction, Value]
    values: tuple[Value, ...]
    name: str
    numbers: tuple[int, ...]
    target: Target
    is_repeated: bool = False

    @classmethod
    def of(
        cls,
        i: HloInstruction,
        stored: Mapping[HloInstruction, Value],
        values: Sequence[Value],
        target: Target,
        *,
        is_repeated: bool = False,
    ) -> "LoopTask":
        """Return the task of a kernel that computes all results of an instruction."""
        numbers = tuple(range(len(values)))
        return cls(i, i, stored, tuple(values), i.name, numbers, target, is_repeated)

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The dimensions of the largest result, which loops are over."""
        shapes = (value.shape for value in self.values)
        return max(shapes, key=lambda shape: shape.element_count).dimensions


@dataclasses.dataclass(frozen=True, slots=True)
class LoopKernel:
    """The kernel of a task, or the kernels that split it, and their counts for one launch of each.

    `evaluated` has the number of evaluations of each instruction, `units` the time in additions.
    `prologue_reductions` are the reductions that each call repeats, and `repeated_reductions` those
    that each work item repeats.
    """

    task: LoopTask
    thunks: tuple[KernelThunk, ...]
    evaluated: Mapping[HloInstruction, float]
    units: float
    prologue_reductions: tuple[HloInstruction, ...]
    repeated_reductions: tuple[HloInstruction, ...] = ()


def loop_kernel(task: LoopTask) -> LoopKernel:
    """Write the kernel of a task by the schedule that fits."""
    buffers = list(dict.fromkeys([*task.stored.values(), *task.values]))
    origins: Origins = {}
    dimensions = task.dimensions
    graph = ElementGraph(
        dimensions,
        maker_of(task, buffers, origins),
        task.target,
        cancellation=len(buffers),
        is_repeated=task.is_repeated,
    )
    schedule, found = scheduled_by(graph)
    tuned = task.target.tuning.loops
    limit = tuned.max_repeated_unoptimised_work if task.is_repeated else tuned.max_unoptimised_work
    kernel = _unoptimised_if_short(found.kernel, limit)
    pairs = in_place_pairs(graph.nest, buffers) if schedule.reads_first else ()
    thunk = kernel_thunk(task.name, kernel, buffers, in_place=pairs)
    return LoopKernel(
        task,
        (thunk,),
        evaluated_instructions(found.evaluations, origins),
        units_of([kernel], task.target),
        _prologue_reductions(graph.nest, origins),
    )


class Maker(Protocol):
    """Makes the stores of an element of each result, traced by the given rules."""

    def __call__(self, index: Index, rules: Mapping[Opcode, Rule] = RULES) -> Sequence[Store]:
        """Return the stores of the element at `index`."""


def maker_of(task: LoopTask, buffers: Sequence[Value], origins: Origins) -> Maker:
    """Return a Maker of the stores of an element of each result, in a kernel over these buffers.

    It adds to `origins` the instruction of which each node is an element.
    """
    numbers = {operand: buffers.index(value) for operand, value in task.stored.items()}
    dimensions = task.dimensions
    ends: dict[HloInstruction, list[int]] = {}

    def make(index: Index, rules: Mapping[Opcode, Rule] = RULES) -> Sequence[Store]:
        tracer = Tracer(rules, numbers, origins, ends)
        if task.root is not task.instruction:
            tracer.enter(task.instruction.called[0], task.instruction.operands)
        stores = []
        for number, value in zip(task.numbers, task.values, strict=True):
            shape = value.shape
            at, element = _position(index, dimensions, shape)
            kind = KERNEL_TYPE[shape.element_type]
            node = as_stored(tracer.value(task.root, at, number), kind)
            stores.append(Store(buffers.index(value), kind, element, node))
        return stores

    return make


def _position(index: Index, dimensions: tuple[int, ...], shape: Shape) -> tuple[Index, Affine]:
    """Return the index of an element of a result, and its offset in memory.

    A result may have one element for each row of the loops, or for each column.
    """
    sizes = shape.dimensions
    if sizes == dimensions[: len(sizes)]:
        return index[: len(sizes)], linear(index[: len(sizes)], sizes)
    if sizes == dimensions[len(dimensions) - len(sizes) :]:
        return index[len(dimensions) - len(sizes) :], linear(index[-len(sizes) :], sizes)
    # A convolution and its epilogue may have other dimensions over the same elements.
    element = linear(index, dimensions)
    return multi_index(element, sizes), element


def evaluated_instructions(
    evaluations: Evaluations, origins: Origins
) -> dict[HloInstruction, float]:
    """Return the number of evaluations of each instruction in a launch, over all its nodes."""
    found: dict[HloInstruction, float] = {}
    for what, times in evaluations.items():
        origin = origins.get(what)
        if origin is not None:
            found[origin] = found.get(origin, 0.0) + times
    return found


def cost_of_evaluations(evaluated: Mapping[HloInstruction, float]) -> Cost:
    """Return the cost of these evaluations."""
    parts = (evaluation_cost(i) * times for i, times in evaluated.items())
    return sum(parts, start=Cost())


def units_of(kernels: Iterable[Kernel], target: Target) -> float:
    """Return the time of a launch of each kernel, in additions."""
    total = 0.0
    for kernel in kernels:
        calls = calls_of(kernel.items, *kernel.work.times, target.tuning.loops.chunks)
        total += kernel.work.item.time * kernel.items + kernel.work.prologue.time * calls
    return total


def _prologue_reductions(nest: Nest, origins: Origins) -> tuple[HloInstruction, ...]:
    """Return the reductions before the loop over work items."""
    if not nest.loops:
        return ()
    inside = {loop for node in prologue_of(nest.stores) for loop in node.variables}
    found = (
        origins.get(reduction)
        for reduction in reductions_of(nest.stores)
        if inside.issuperset(reduction.loops)
    )
    return tuple(i for i in found if i is not None and i.opcode is Opcode.REDUCE)


def _unoptimised_if_short(kernel: Kernel, limit: int) -> Kernel:
    """Leave a kernel of one element unoptimised if it is not worth its compiler's time."""
    whole = kernel.work.item + kernel.work.prologue
    instructions = whole.operations + whole.accesses
    if kernel.items > 1 or instructions > limit or inlined_functions(kernel):
        return kernel
    return dataclasses.replace(kernel, effort=Effort.UNOPTIMISED)


def inlined_functions(kernel: Kernel) -> set[str]:
    """Return the functions that are inlined into a kernel: neither instructions nor calls."""
    applied = {
        statement.expression.function
        for statement, _ in walk(kernel.body)
        if isinstance(statement, Let)
        and statement.origin is not None
        and isinstance(statement.expression, ApplyExpression)
    }
    return applied - ARITHMETIC.keys() - INSTRUCTIONS.keys() - CALLED.keys() - WITH_BRANCHES


def in_place_pairs(nest: Nest, buffers: Sequence[Value]) -> tuple[tuple[Value, Value], ...]:
    """Results that may overwrite an operand: each element is only read for its own result."""
    offsets: dict[int, set[Affine]] = {}
    for node in all_nodes(nest.stores):
        if isinstance(node, Load):
            offsets.setdefault(node.argument, set()).add(node.offset)
    element = {store.offset for store in nest.stores}
    if len(element) > 1:
        return ()
    read = [buffers[argument] for argument, offset in offsets.items() if offset == element]
    stored = [buffers[store.argument] for store in nest.stores]
    return tuple(
        (new, old)
        for new in stored
        for old in read
        if new.shape.element_type.byte_width == old.shape.element_type.byte_width
    )
