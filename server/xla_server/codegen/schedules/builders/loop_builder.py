"""Loops over elements and loops of reductions.

Reductions that may be reassociated are cut into runs, whose partial results are combined in a fixed
tree.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence, Set

from xla_server.codegen.instructions.memory import COPY_BYTES
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Block, Body, Loop
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Accumulate, Call, Order, ParallelFor, Stop
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.schedules.builders.copies import CopiedRun
from xla_server.codegen.schedules.builders.graph_builder import GraphBuilder, applied
from xla_server.codegen.schedules.builders.launches.scheduled import ScheduledKernel, scheduled
from xla_server.codegen.schedules.builders.launches.stopping import SPAN, is_long, span_of
from xla_server.codegen.schedules.builders.row_buffers import row_buffers
from xla_server.codegen.schedules.builders.stored_nodes import all_nodes
from xla_server.codegen.schedules.reductions.reduction_groups import is_free, reduction_groups
from xla_server.codegen.schedules.reductions.sum_levels import SumLoop, is_even, size_of, steps_of
from xla_server.codegen.schedules.reductions.vector_reductions import (
    VectorReduction,
    vector_reduction,
)
from xla_server.codegen.trace.graph import Immediate, Node, Reduction, Store
from xla_server.ir.analysis.affine import Variable
from xla_server.ir.explicit_stack import Deep
from xla_server.target.target import Target

_WIDE_NEUTRAL = Immediate.of("f64", 1 << 63)
"""The initial value of sums of partial results: -0."""


@dataclasses.dataclass(frozen=True, slots=True)
class Nest:
    """Loops over the elements of a kernel's results, outermost first, and the stores inside.

    Argument number `cancellation` is the cancellation flag, which the kernel polls if `polls`.
    Statements refer to entries of `origins` by number; builders append to it. If the nest
    `is_flat`, it is one loop over all elements, with a 32-bit variable.
    """

    loops: tuple[Variable, ...]
    stores: tuple[Store, ...]
    target: Target
    cancellation: int | None = None
    polls: bool = False
    is_flat: bool = False
    origins: list[Node | Reduction] = dataclasses.field(default_factory=list, compare=False)


class LoopBuilder(GraphBuilder):
    """Builds the loops of one kernel; each schedule has a subclass that orders them."""

    def __init__(self, nest: Nest, written: Set[int] = frozenset()) -> None:
        """`written` are arguments that the kernel writes besides the targets of its stores."""
        super().__init__(nest.stores, written)
        self._nest, self._tuned = nest, nest.target.tuning.loops
        self._origins = nest.origins
        self._has_narrow_indices = nest.is_flat
        self._results: dict[Reduction, list[ir.Expression]] = {}
        self._groups: dict[Reduction, tuple[Reduction, ...]] = {}
        self._flag: ir.Buffer | None = None
        if nest.polls and nest.cancellation is not None:
            self._flag = ir.Buffer(nest.cancellation, ir.Usage.FLAG)
        self._effort = Effort.OPTIMISED

    def _scheduled(self) -> ScheduledKernel:
        """Return the kernel and its counts, once all parallel loops are in the outermost level."""
        return scheduled(self._kernel(), self._origins, self._tuned.chunks)

    def _kernel(self) -> Kernel:
        buffers = tuple(self._buffers.values()) + (() if self._flag is None else (self._flag,))
        memory = buffers, tuple(self._stack)
        return Kernel(*memory, tuple(self._top.statements), self._effort, tuple(self._shared))

    def _close_part(self, body: Body, axis: ir.Value | None, items: int, first: int = 0) -> None:
        """Append a parallel loop to the outermost level."""
        self._top.add(ParallelFor(axis, items, tuple(body.statements), first))

    def _axis(self, letter: str) -> ir.Value:
        """Return a new 64-bit loop variable."""
        return ir.Value(self._names(letter), Type.I64)

    def _allocate_rows(self) -> None:
        """Allocate the row buffers that loops share."""
        groups = reduction_groups(self._nest.stores)
        self._groups = {reduction: group for group in groups for reduction in group}
        self._shared_rows = row_buffers(self._nest.loops, self._nest.stores, groups, self._tuned)
        for row in self._shared_rows.rows:
            array = self._stack_array(f"row{row.number}", row.byte_size)
            self._row_buffers[row.number] = array

    def _open_outer(self, loops: Sequence[Variable], item: ir.Value, body: Body) -> None:
        """Compute the outer variables from the linear index of the work item."""
        for loop in loops:
            self._bodies[loop] = body
        if len(loops) == 1:
            self._indices[loops[0]] = item
            return
        rest = item
        for number, loop in reversed(list(enumerate(loops))):
            name = self._names("i")
            if number == 0:
                self._indices[loop] = body.let(name, rest)
            else:
                self._indices[loop] = body.let(name, ir.integer_op("whole_mod", rest, loop.size))
                rest = body.let(self._names("t"), ir.integer_op("whole_div", rest, loop.size))

    def _open(
        self,
        loop: Variable,
        outside: Body,
        high: int | ir.Expression | None = None,
        low: int | ir.Expression = 0,
        iterations: float | None = None,
    ) -> Loop:
        """Begin the loop of a variable, over its whole range or from `low` to `high`."""
        high = loop.size if high is None else high
        name, unrolled = self._names("i"), loop.unrolled or None
        body = Loop(outside, name, high, low, iterations=iterations, unrolled=unrolled)
        self._indices[loop], self._bodies[loop] = body.axis, body
        return body

    def _open_loops(self, loops: Sequence[Variable], body: Body) -> list[Loop]:
        """Begin nested loops inside of a body; one of them may poll the cancellation flag."""
        opened: list[Loop] = []
        inside = self._elements_inside(loops) if self._flag and loops else 1
        polled, span = span_of([loop.size for loop in loops], inside)
        for number, loop in enumerate(loops):
            low: int | ir.Expression = 0
            high: int | ir.Expression = loop.size
            iterations: float = loop.size
            if self._flag and number == polled and span < loop.size:
                names = self._names("i"), self._names("i")
                outer = Loop(body, names[0], high, step=span, iterations=loop.size / span)
                outer.add(Stop(self._flag))
                low = outer.axis
                stop = ir.integer_op("add", low, span)
                high = outer.let(names[1], ir.integer_op("minimum", stop, loop.size))
                body, iterations = outer, span
                opened.append(outer)
            body = self._open(loop, body, high, low, iterations)
            opened.append(body)
        return opened

    def _is_copied(self, copy: CopiedRun) -> bool:
        """Return whether a copy is one of bytes: it has one type, and its arrays do not overlap."""
        is_same = copy.load.kernel_type == copy.store.kernel_type
        is_apart = copy.load.argument not in self._written
        return is_same and is_apart and copy.store.kernel_type.storage[0] in "iuf"

    def _copying(self, copy: CopiedRun) -> Call:
        """Return the call that copies the bytes."""
        width = Type(copy.store.kernel_type.storage).byte_size
        to, of = (
            ir.Address(self._buffers[part.argument], self._index(part.offset), width)
            for part in (copy.store, copy.load)
        )
        return Call.of(COPY_BYTES, {"target": to, "source": of, "count": copy.byte_size})

    def _elements_inside(self, loops: Sequence[Variable]) -> int:
        """Return the iterations of the loops inside, for one iteration of the last of `loops`."""
        open_loops = {*self._bodies, *loops}
        return max(
            (
                math.prod(loop.size for loop in node.variables if loop not in open_loops)
                for node in all_nodes(self._nest.stores)
                if loops[-1] in node.variables
            ),
            default=1,
        )

    def _reduced(self, reduction: Reduction) -> Deep[Sequence[ir.Expression]]:
        if reduction not in self._results:
            # Operands of nested reductions and accumulators are evaluated before the loop.
            body = self._body_of(reduction.variables)
            if is_free(reduction):
                yield self._reduce_freely(self._groups.get(reduction, (reduction,)), body)
            else:
                yield self._reduce_in_order(reduction, body)
        return self._results[reduction]

    def _reduce_in_order(self, reduction: Reduction, body: Body) -> Deep[None]:
        initial: list[ir.Expression] = yield self._all_evaluated(reduction.initial)
        names = [self._names("a") for _ in reduction.accumulators]
        cells = [body.declare(*each) for each in zip(names, initial, strict=True)]
        opened = self._open_loops(reduction.loops, body)
        inner = opened[-1] if opened else body
        self._values.update(zip(reduction.accumulators, cells, strict=True))
        combined: list[ir.Expression] = yield self._all_evaluated(reduction.combined)
        # All new values are computed before the first accumulator is assigned.
        for number, (cell, new) in enumerate(zip(cells, combined, strict=True)):
            inner.set(cell, new, None if number else self._origin(reduction))
        close(opened)
        self._results[reduction] = list(cells)

    def _reduce_freely(self, group: Sequence[Reduction], body: Body) -> Deep[None]:
        """Build reassociated runs, whose partial results are combined in a fixed tree."""
        initial: list[ir.Expression] = yield self._all_evaluated(
            reduction.initial[0] for reduction in group
        )
        forms = [_form(reduction) for reduction in group]
        sizes = [loop.size for loop in group[0].loops]
        # Exact operations need one run, unless it has to poll the cancellation flag.
        is_cut = self._flag is not None or any(form.rounds for form in forms)
        count = math.prod(sizes)
        lengths = self._nest.target.tuning.free_sums
        is_long_sum = count >= lengths.min_long_elements
        most = lengths.long_run_elements if is_long_sum else lengths.run_elements
        steps = steps_of(sizes, most if is_cut else count, lengths.parts)
        opened: list[Loop] = []
        # Every level but the innermost adds the sums of the level inside it.
        levels = sum(step.begins for step in steps)
        sums = [(body, self._neutral(forms, body, joins=levels > 0))]
        bounds: dict[int, tuple[ir.Expression, ir.Expression]] = {}
        inner = body
        for number, step in enumerate(steps):
            # A loop over runs of equal length has a constant bound: LLVM needs no remainder.
            inner = self._open_step(group, step, bounds, inner, is_even=is_even(steps, step))
            opened.append(inner)
            if step.begins:
                if self._flag and size_of(steps, number) >= SPAN:
                    inner.add(Stop(self._flag))
                joins = len(sums) < levels
                sums.append((inner, self._neutral(forms, inner, joins=joins)))
        origins = [self._origin(reduction) for reduction in group]
        for reduction, form, run, origin in zip(group, forms, sums[-1][1], origins, strict=True):
            assert reduction.element is not None
            element: ir.Expression = yield self._evaluated(reduction.element)
            element = applied(form.enter, element, run.type)
            inner.add(Accumulate(run, form.run, element, Order.ANY, origin))
        for step in reversed(steps):
            if step.begins:
                where, cells = sums.pop()
                is_run = len(sums) == levels
                for form, target, part in zip(forms, sums[-1][1], cells, strict=True):
                    joined = applied("to_f64" if form.is_wide and is_run else None, part, "f64")
                    where.add(Accumulate(target, form.join, joined, Order.SEQUENTIAL))
            opened.pop().close()
        for reduction, form, start, whole in zip(group, forms, initial, sums[0][1], strict=True):
            result = self._names("a")
            if form.is_wide and levels:
                total = _applied(form.join, applied("to_f64", start, "f64"), whole)
                joined = applied("to_f32", total, "f32")
            else:
                joined = _applied(form.join, start, applied(form.leave, whole, start.type))
            self._results[reduction] = [body.let(result, joined)]

    def _open_step(
        self,
        group: Sequence[Reduction],
        step: SumLoop,
        bounds: dict[int, tuple[ir.Expression, ir.Expression]],
        outside: Body,
        *,
        is_even: bool,
    ) -> Loop:
        """Begin one loop of a sum within its `bounds`, which are narrowed to a step."""
        low, high = bounds.get(step.loop, (ir.Index(0), ir.Index(step.length)))
        name, iterations = self._names("i"), step.length / step.span
        if step.span > 1:
            end = self._names("i")
            body = Loop(outside, name, high, low, step=step.span, iterations=iterations)
            stop = ir.integer_op("add", body.axis, step.span)
            value = stop if is_even else ir.integer_op("minimum", stop, high)
            bounds[step.loop] = body.axis, body.let(end, value)
            return body
        if is_even and ir.known(low) is None:
            body = Loop(outside, self._names("i"), step.length)
            body.bounds = low, ir.plus(low, step.length)
            index = body.let(name, ir.integer_op("add", low, body.axis))
        else:
            unrolled = group[0].loops[step.loop].unrolled or None
            body = Loop(outside, name, high, low, iterations=iterations, unrolled=unrolled)
            index = body.axis
        for reduction in group:
            self._indices[reduction.loops[step.loop]] = index
            self._bodies[reduction.loops[step.loop]] = body
        return body

    def _neutral(
        self, forms: Sequence[VectorReduction], body: Body, *, joins: bool = False
    ) -> list[ir.Cell]:
        """Declare accumulators with neutral elements; those of runs' results if `joins`."""
        cells = []
        for form in forms:
            neutral: Node = _WIDE_NEUTRAL if joins and form.is_wide else form.neutral
            start = self._value(neutral)
            cells.append(body.declare(self._names("a"), start))
        return cells


def polling_nest_if_long(nest: Nest, build: Callable[[Nest], ScheduledKernel]) -> ScheduledKernel:
    """Return the kernel of a nest, which polls the cancellation flag if work items are long."""
    found = build(nest)
    if nest.cancellation is None or not is_long(found.kernel):
        return found
    return build(dataclasses.replace(nest, polls=True))


def close(opened: Sequence[Block]) -> None:
    """Close nested blocks, the innermost first."""
    for block in reversed(opened):
        block.close()


def _applied(function: str, left: ir.Expression, right: ir.Expression) -> ir.Expression:
    return ir.Apply(function, (left, right), left.type)


def _form(reduction: Reduction) -> VectorReduction:
    form = vector_reduction(reduction)
    assert form is not None
    return form
