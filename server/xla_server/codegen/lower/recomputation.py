"""The cost model of fusion: how often the loop nest of a fusion evaluates each instruction.

A fusion's kernel is built for its sizes and counted (kernel_ir/analysis/counts.py). If it evaluates
elements repeatedly, and storing an instruction of the fusion first takes less time by the same
count, that instruction becomes a kernel before it. A reduction that varies with no loop of the
kernel is always stored if it would keep a large kernel from running in parallel.
"""

import dataclasses
from collections.abc import Iterable, Mapping

from xla_contract.types.opcode import Opcode
from xla_server.buffers.code import Value
from xla_server.codegen.lower.fusion_faults import FUSION_FAULTS, is_fault
from xla_server.codegen.lower.loop_nests.concatenate import write_loops
from xla_server.codegen.lower.loop_nests.loop_kernel import LoopKernel, LoopTask
from xla_server.codegen.lower.loop_nests.loop_lowering import Write
from xla_server.codegen.schedules.builders.launches.chunks import calls_of
from xla_server.evaluator.evaluation_cost import evaluation_time, evaluations_once
from xla_server.fusion.analysis.fusible import is_scalar_constant
from xla_server.ir.module import HloInstruction
from xla_server.ir.traversal import reached
from xla_server.ops.elementwise.elementwise_op import CostClass
from xla_server.target.target import Target


class LoopNestCosts:
    """The cost model of fusion: builds the kernels that a fusion would be, and counts them."""

    def __init__(self, target: Target, write: Write = write_loops) -> None:
        self._target, self._write = target, write

    def stored(self, fusion: HloInstruction) -> frozenset[HloInstruction]:
        """Return the instructions that are cheaper to store before a loop fusion.

        A fusion whose kernel cannot be written is left as it is: lowering meets the same error.
        """
        if not all(shape.element_count for shape in fusion.shape.parts):
            return frozenset()
        try:
            planner = _Planner(_task_of(fusion, self._target), self._write)
        except Exception:  # Lowering builds the same kernel, and reports the same error.
            return frozenset()
        try:
            return planner.planned()
        except Exception as error:
            if not is_fault(error):
                raise
            FUSION_FAULTS.record(error, fusion)
            return frozenset()


def _task_of(fusion: HloInstruction, target: Target) -> LoopTask:
    """Return the task of a fusion's kernel, over placeholders for the program's values."""
    operands = {
        operand: _value(operand, operand.name)
        for operand in fusion.operands
        if not is_scalar_constant(operand)
    }
    shapes = fusion.shape.parts
    values = tuple(Value(s.without_layout(), f"{fusion.name}.{n}") for n, s in enumerate(shapes))
    return LoopTask.of(fusion, operands, values, target)


def _value(i: HloInstruction, name: str) -> Value:
    return Value(i.shape.without_layout(), name)


class _Planner:
    """Chooses which instructions of a fusion are stored."""

    def __init__(self, task: LoopTask, write: Write) -> None:
        self._costs = task.target.tuning.evaluation_costs
        self._loops = task.target.tuning.loops
        self._task, self._write = task, write
        (self._called,) = task.instruction.called
        self._results = _results(self._called.root)
        self._order = {i: n for n, i in enumerate(self._called.instructions)}
        self._values: dict[HloInstruction, Value] = {}
        if len(self._results) > 1:
            self._values.update(zip(self._results, task.values, strict=True))
        self._known = {(task.instruction, frozenset[HloInstruction]()): write(task)}
        self._left = self._costs.max_plans

    def planned(self) -> frozenset[HloInstruction]:
        """Return the stored instructions of the plan that takes the least time of those tried."""
        stored: frozenset[HloInstruction] = frozenset()
        kernels = self._kernels(stored)
        while self._left > 0:
            serial = next(filter(None, map(self._serial_reduction, kernels)), None)
            # The kernel itself writes the only result: storing it first would leave nothing to
            # compute.
            if serial is not None and (serial,) != self._results:
                stored |= {serial}
                kernels = self._kernels(stored)
                continue
            for i in self._candidates(kernels, stored):
                if self._left <= 0:
                    break
                other = self._kernels(stored | {i})
                if self._units(kernels) - self._units(other) > self._costs.launch:
                    stored, kernels = stored | {i}, other
                    break
            else:
                break
        return stored

    def _kernels(self, stored: frozenset[HloInstruction]) -> list[LoopKernel]:
        """Return the kernels that store these instructions in order, and the results last."""
        self._left -= 1
        order = sorted(stored, key=self._order.__getitem__)
        kernels = [self._kernel(root, stored) for root in order]
        if not stored.issuperset(self._results):
            kernels.append(self._kernel(self._task.instruction, stored))
        return kernels

    def _kernel(self, root: HloInstruction, stored: frozenset[HloInstruction]) -> LoopKernel:
        inside = self._computed_from(root, stored)
        read = (stored & inside) - {root}
        kernel = self._known.get((root, read))
        if kernel is None:
            kernel = self._known[root, read] = self._write(self._subtask(root, inside, read))
        return kernel

    def _subtask(
        self, root: HloInstruction, inside: set[HloInstruction], read: Iterable[HloInstruction]
    ) -> LoopTask:
        task = self._task
        values = {i: self._value(i) for i in sorted(read, key=self._order.__getitem__)}
        if root is task.instruction:
            stored = {**task.stored, **values}
            numbers = task.numbers
            if len(numbers) == len(self._results):
                numbers = tuple(n for n in numbers if self._results[n] not in stored)
            results = tuple(task.values[n] for n in numbers)
            return dataclasses.replace(task, stored=stored, values=results, numbers=numbers)
        bound = zip(self._called.parameters, task.instruction.operands, strict=True)
        needed = {operand for parameter, operand in bound if parameter in inside}
        operands = {part: value for part, value in task.stored.items() if part in needed}
        value = self._value(root)
        stored = {**operands, **values}
        return LoopTask(task.instruction, root, stored, (value,), value.name, (0,), task.target)

    def _value(self, i: HloInstruction) -> Value:
        return self._values.setdefault(i, _value(i, f"{self._task.name}.{i.name}"))

    def _computed_from(
        self, root: HloInstruction, stored: frozenset[HloInstruction]
    ) -> set[HloInstruction]:
        """Return the instructions that a kernel computes or reads: from its root to stored ones."""
        start = self._called.root if root is self._task.instruction else root
        ends = stored - {start}
        return set(reached([start], lambda part: () if part in ends else part.operands))

    def _candidates(
        self, kernels: Iterable[LoopKernel], stored: frozenset[HloInstruction]
    ) -> list[HloInstruction]:
        """Return the instructions that are best to store by an estimate, best first."""
        evaluated: dict[HloInstruction, float] = {}
        for kernel in kernels:
            for i, times in kernel.evaluated.items():
                evaluated[i] = evaluated.get(i, 0.0) + times
        wasted = wasted_units(evaluated)
        total = sum(wasted.values())
        if total <= self._costs.launch:
            return []
        gains: dict[HloInstruction, float] = {}
        for i, own in wasted.items():
            is_only_result = (i,) == self._results
            if is_only_result or i in stored or own * self._costs.min_share < total:
                continue
            saved = sum(wasted.get(part, 0.0) for part in self._computed_from(i, frozenset()))
            elements = float(i.shape.element_count)
            reads = evaluated[i] / max(1.0, evaluations_once(i)) * elements
            gains[i] = saved - CostClass.ACCESS * (reads + elements)
        best = sorted(gains, key=lambda i: gains[i], reverse=True)
        return [i for i in best if gains[i] > self._costs.launch]

    def _units(self, kernels: Iterable[LoopKernel]) -> float:
        return sum(kernel.units + self._costs.launch for kernel in kernels)

    def _serial_reduction(self, kernel: LoopKernel) -> HloInstruction | None:
        """Return a reduction that each work item repeats, or one before the parallel loop.

        The latter matters only if the kernel could have more chunks.
        """
        repeated = [i for i in kernel.repeated_reductions if i in self._order]
        if repeated:
            return max(repeated, key=evaluations_once)
        if not kernel.prologue_reductions:
            return None
        (thunk,) = kernel.thunks
        chunks = self._loops.chunks
        calls = calls_of(thunk.work_items, thunk.work, thunk.prologue, chunks)
        wanted = min(self._costs.parallel_calls, calls_of(thunk.work_items, thunk.work, 0, chunks))
        if calls >= wanted:
            return None
        return max(kernel.prologue_reductions, key=evaluations_once)


def _results(root: HloInstruction) -> tuple[HloInstruction, ...]:
    """Return the instructions of a fusion's results, in order; the root if two are the same."""
    results = root.operands if root.opcode is Opcode.TUPLE else (root,)
    return tuple(results) if len(set(results)) == len(results) else (root,)


def wasted_units(evaluated: Mapping[HloInstruction, float]) -> dict[HloInstruction, float]:
    """Return the time of evaluations that repeat earlier ones."""
    found = {}
    for i, times in evaluated.items():
        again = times - evaluations_once(i)
        if again > 0:
            found[i] = again * evaluation_time(i)
    return found
