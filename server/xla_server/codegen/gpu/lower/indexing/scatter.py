"""Lowering of scatter for a GPU: updates of one element are combined in an order that is fixed.

An update has a number, in the order of updates, and a number among window dimensions that no index
applies to. The latter are free: neighbouring threads have neighbouring free numbers. The forms, for
n numbers of the first kind:

- DIRECT: no element has two updates, so each update has a thread. If a program claims so of indices
  that repeat, one of the updates is lost, which XLA permits.
- WALK: few updates. A thread for each free number goes through all n.
- SORTED: numbers are sorted by element, and the thread of the first of each run goes through it.

If one element has all updates and the combiner is not associative, one thread combines all n in
sequence. An associative one has totals of parts of sqrt(n) numbers before: no thread combines more
than about 3 sqrt(n). Sizes and indices alone decide the order.
"""

import enum
import math
from collections.abc import Sequence
from typing import NamedTuple

from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.buffers.code import Value as Array
from xla_server.codegen.gpu.lower.indexing.merge_sort import MergeSort
from xla_server.codegen.gpu.lower.indexing.merging import Entry, by_first_part, integer_type
from xla_server.codegen.gpu.lower.thunks.thread_thunks import ThreadKernel
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Branch, Items, Loop
from xla_server.codegen.kernel_ir.statements import Break, Let
from xla_server.codegen.lower.indexing.scatter_kernel import (
    Combination,
    coordinates,
    entry_index,
    fits_within,
    flat_index,
    load_entry,
)
from xla_server.codegen.lower.indexing.scatter_space import Space
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.schedules.builders.scalar_builder import load_element, store_element
from xla_server.ir.module import HloInstruction
from xla_server.ops.elementwise.elementwise_table import COMBINING
from xla_server.passes.framework.queries import combiner

MAX_WALK = 16
"""Largest number of updates that each thread of WALK visits."""


class Method(enum.Enum):
    """The form of a scatter, as the module says."""

    DIRECT = "direct"
    WALK = "walk"
    SORTED = "sorted"


def lower_scatter(lowering: Lowering, i: HloInstruction) -> Tree:
    """Copy the operands, unless they may be overwritten, and combine the updates."""
    count = len(i.operands) // 2
    results = lowering.results(i)
    operands = tuple(lowering.array(operand) for operand in i.operands)
    lowering.copy(results, operands[:count])
    if i.operands[count + 1].shape.element_count and results[0].shape.element_count:
        _Scatter(lowering, i, operands[count], results, operands[count + 1 :]).add()
    return results if i.shape.is_tuple else results[0]


class _Updates:
    """The updates of a scatter by their numbers: `ordered` and `free` dimensions of updates."""

    def __init__(self, space: Space) -> None:
        pairs = list(zip(space.window, space.scattered, strict=True))
        reached = {axis for axis, entry in pairs if entry >= 0}
        free = {axis for axis, entry in pairs if axis >= 0 and axis not in reached}
        self.space = space
        self.free = tuple(sorted(free))
        self.ordered = tuple(d for d in range(len(space.updates)) if d not in free)
        self.count, self.free_count = self._size(self.ordered), self._size(self.free)

    def _size(self, dims: Sequence[int]) -> int:
        return math.prod(self.space.updates[d] for d in dims)

    def form(self, *, is_unique: bool) -> Method:
        """Return the form of the scatter; `is_unique`: no element has two updates."""
        if is_unique or self.space.vectors == 1:
            return Method.DIRECT
        return Method.WALK if self.count <= MAX_WALK else Method.SORTED

    def coordinates(
        self, kernel: ThreadKernel, body: Body, number: ir.Expression, dims: Sequence[int]
    ) -> dict[int, ir.Expression]:
        """Return the indices along dimensions of a number that counts their elements."""
        found = coordinates(number, self.space.updates, dims)
        return {d: body.let(kernel.names("u"), index) for d, index in found}

    def update(
        self, kernel: ThreadKernel, body: Body, number: ir.Expression, free: ir.Expression
    ) -> ir.Index:
        """Return the index of an update."""
        if self.ordered == tuple(range(len(self.ordered))):
            return ir.Index(0, ((number, self.free_count), (free, 1)))
        position = self.coordinates(kernel, body, number, self.ordered)
        position |= self.coordinates(kernel, body, free, self.free)
        at = [position[d] for d in range(len(self.space.updates))]
        return flat_index(at, self.space.updates)

    def free_offset(self, kernel: ThreadKernel, body: Body, free: ir.Expression) -> ir.Index:
        """Return the offset of an element from the one with free number 0."""
        position = self.coordinates(kernel, body, free, self.free)
        at = [position.get(axis, ir.Index(0)) for axis in self.space.window]
        return flat_index(at, self.space.sizes)


class _Scatter:
    """Builder of the kernels of a scatter."""

    def __init__(
        self,
        lowering: Lowering,
        i: HloInstruction,
        indices: Array,
        results: Sequence[Array],
        updates: Sequence[Array],
    ) -> None:
        self._lowering, self._i = lowering, i
        self._results, self._new = results, updates
        # A reshape has the value of its operand: the instruction has the dimensions.
        self._indices, self._shape = indices, i.operands[len(results)].shape
        new = i.operands[len(results) + 1].shape
        space = Space.of(i.attributes.dimension_numbers, results[0].shape, new)
        self._updates = _Updates(space)

    def add(self) -> None:
        """Add the kernels of the form that fits."""
        form = self._updates.form(is_unique=self._i.attributes.unique_indices)
        if form is Method.DIRECT:
            self._add_parallel()
        elif form is Method.WALK:
            self._add_walk()
        else:
            self._add_sorted(self._add_positions())

    def _kernel(self, suffix: str = "") -> ThreadKernel:
        return ThreadKernel(f"{self._i.name}{suffix}")

    def _value(self, name: str, kind: ElementType, *sizes: int) -> Array:
        return self._lowering.new(Shape.array(kind, sizes), f"{self._i.name}.{name}")

    def _fits(
        self, kernel: ThreadKernel, body: Body, number: ir.Expression
    ) -> tuple[ir.Expression, ir.Index]:
        """Return whether the window of an update fits, and where it then is in the results."""
        space, numbers = self._updates.space, self._i.attributes.dimension_numbers
        position = self._updates.coordinates(kernel, body, number, self._updates.ordered)
        vector = [position[d] for d in space.batch_dims]
        fits: list[ir.Expression] = []
        element_at: list[ir.Expression] = []
        rows = zip(space.sizes, space.window, space.batch, space.scattered, strict=True)
        for d, (size, window, batch, entry) in enumerate(rows):
            terms = [position[axis] for axis in (window, batch) if axis in position]
            if entry >= 0:
                at = entry_index(self._shape, numbers.index_vector_dim, entry, vector)
                start = load_entry(self._shape, kernel.reads(self._indices), at)
                terms.append(body.let(kernel.names("start"), start))
                fits.append(fits_within(terms[-1], size - space.extent(d)))
            element_at.append(ir.Index(0, tuple((term, 1) for term in terms)))
        return ir.all_of(fits or [ir.condition("eq", 0, 0)]), flat_index(element_at, space.sizes)

    def _add_parallel(self) -> None:
        kernel, updates = self._kernel(), self._updates
        with Items(kernel.top, updates.count * updates.free_count) as body:
            number, free = self._numbers(kernel, body, body.axis)
            self._combine_alone(kernel, body, number, free)
        self._lowering.add(kernel.thunk())

    def _add_walk(self) -> None:
        kernel, updates = self._kernel(), self._updates
        with (
            Items(kernel.top, updates.free_count) as body,
            Loop(body, "number", updates.count) as loop,
        ):
            self._combine_alone(kernel, loop, loop.axis, body.axis)
        self._lowering.add(kernel.thunk())

    def _numbers(
        self, kernel: ThreadKernel, body: Body, item: ir.Value
    ) -> tuple[ir.Expression, ir.Expression]:
        """Return the number of a thread's update, and its number among free ones."""
        count = self._updates.free_count
        if count == 1:
            return item, ir.Index(0)
        index = ir.Index(0, ((item, 1),))
        number = body.let(kernel.names("number"), ir.Quotient(index, count))
        return number, body.let(kernel.names("free"), ir.Remainder(index, count))

    def _combine_alone(
        self, kernel: ThreadKernel, body: Body, number: ir.Expression, free: ir.Expression
    ) -> None:
        """Combine one update if its window is in bounds."""
        fits, origin = self._fits(kernel, body, number)
        with Branch(body, fits) as branch:
            offset = self._updates.free_offset(kernel, branch, free)
            to = branch.let(kernel.names("to"), ir.Index(0, ((origin, 1), (offset, 1))))
            new = self._updated(kernel, branch, number, free)
            combined = self._combined(kernel, branch, self._old(kernel, branch, to), new)
            self._store(kernel, branch, to, combined)

    def _buffers(self, kernel: ThreadKernel) -> list[tuple[ir.Buffer, ElementType]]:
        return [(kernel.updates(value), value.shape.element_type) for value in self._results]

    def _old(self, kernel: ThreadKernel, body: Body, to: ir.Expression) -> list[ir.Expression]:
        return [load_element(kind, memory, to) for memory, kind in self._buffers(kernel)]

    def _store(
        self, kernel: ThreadKernel, body: Body, to: ir.Expression, values: Sequence[ir.Expression]
    ) -> None:
        for (memory, kind), value in zip(self._buffers(kernel), values, strict=True):
            store_element(body, kind, memory, to, value)

    def _updated(
        self, kernel: ThreadKernel, body: Body, number: ir.Expression, free: ir.Expression
    ) -> list[ir.Expression]:
        """Return the elements of an update."""
        at = body.let(kernel.names("at"), self._updates.update(kernel, body, number, free))
        return self._loaded(kernel, self._new, at)

    def _loaded(
        self, kernel: ThreadKernel, arrays: Sequence[Array], at: ir.Expression
    ) -> list[ir.Expression]:
        return [load_element(a.shape.element_type, kernel.reads(a), at) for a in arrays]

    def _combined(
        self,
        kernel: ThreadKernel,
        body: Body,
        old: Sequence[ir.Expression],
        new: Sequence[ir.Expression],
    ) -> list[ir.Expression]:
        """Return elements with new ones combined in."""
        prefix = kernel.names("c")
        results, updates = (
            [v.shape.element_type for v in values] for values in (self._results, self._new)
        )
        combination = Combination.of(self._i.called[0], results, updates, prefix)
        for (value, _), expression in zip(
            (*combination.old, *combination.new), (*old, *new), strict=True
        ):
            body.add(Let(value, expression))
        body.add(*combination.statements)
        return [body.let(kernel.names("combined"), each) for each in combination.results]

    def _add_positions(self) -> Array:
        """Add the kernel of the position of each update, -1 where its window does not fit."""
        kind = integer_type(self._results[0].shape.element_count)
        positions = self._value("positions", kind, self._updates.count)
        kernel = self._kernel(".positions")
        with Items(kernel.top, self._updates.count) as body:
            fits, origin = self._fits(kernel, body, body.axis)
            with Branch(body, fits) as branch:
                kernel.store_integer(branch, positions, body.axis, origin)
                kernel.store_integer(branch.orelse, positions, body.axis, ir.Index(-1))
        self._lowering.add(kernel.thunk(polls=False))
        return positions

    def _add_sorted(self, positions: Array) -> None:
        """Add the sort of updates by their positions, and the kernel that combines them."""
        count = self._updates.count
        types = positions.shape.element_type, integer_type(count)

        def load(
            kernel: ThreadKernel, body: Body, line: ir.Expression, number: ir.Expression
        ) -> Entry:
            position = kernel.load_integer(positions, number)
            return body.let(kernel.names("position"), position), number

        sort = MergeSort(self._lowering, self._i.name, 1, count, types, by_first_part)
        sorted_positions, order = sort.add(load)
        part = self._part()
        totals = self._add_totals(sorted_positions, order, part) if part < count else ()
        kernel = self._kernel()
        with Items(kernel.top, count * self._updates.free_count) as body:
            number, free = self._numbers(kernel, body, body.axis)
            position = body.let("position", kernel.load_integer(sorted_positions, number))
            ahead = ir.integer_op("maximum", ir.plus(number, -1), 0)
            other = body.let("other", kernel.load_integer(sorted_positions, ahead))
            is_new = ir.condition(
                "bit_or", ir.condition("eq", number, 0), ir.condition("ne", other, position)
            )
            is_first = ir.condition("bit_and", ir.condition("ge", position, 0), is_new)
            with Branch(body, is_first) as owner:
                to, cells = self._owned(kernel, owner, position, free)
                run = _Run(sorted_positions, order, position, free)
                end = self._combine_part(kernel, owner, cells, run, number, part)
                if totals:
                    self._combine_totals(kernel, owner, cells, run, totals, end)
                self._store(kernel, owner, to, cells)
        self._lowering.add(kernel.thunk())

    def _part(self) -> int:
        """Return the updates of a part: all if the combiner need not be associative."""
        count = self._updates.count
        return 1 << count.bit_length() // 2 if combiner(self._i.called[0]) in COMBINING else count

    def _add_totals(self, sorted_positions: Array, order: Array, part: int) -> Sequence[Array]:
        """Add the kernel of totals of parts but the first: of the run that each begins with."""
        parts, free_count = -(-self._updates.count // part) - 1, self._updates.free_count
        kinds = [value.shape.element_type for value in self._results]
        totals = [self._value("totals", kind, parts, free_count) for kind in kinds]
        kernel = self._kernel(".totals")
        with Items(kernel.top, parts * free_count) as body:
            before, free = self._numbers(kernel, body, body.axis)
            first = body.let(kernel.names("number"), ir.Index(part, ((before, part),)))
            position = body.let("position", kernel.load_integer(sorted_positions, first))
            own = body.let(kernel.names("own"), kernel.load_integer(order, first))
            new = self._updated(kernel, body, own, free)
            cells = [body.declare(kernel.names("total"), each) for each in new]
            run = _Run(sorted_positions, order, position, free)
            self._combine_part(kernel, body, cells, run, ir.plus(first, 1), part)
            for value, kind, cell in zip(totals, kinds, cells, strict=True):
                store_element(body, kind, kernel.writes(value), body.axis, cell)
        self._lowering.add(kernel.thunk())
        return totals

    def _owned(
        self, kernel: ThreadKernel, body: Body, position: ir.Expression, free: ir.Expression
    ) -> tuple[ir.Expression, list[ir.Cell]]:
        """Return the index of the elements that a thread owns, and cells with them."""
        offset = self._updates.free_offset(kernel, body, free)
        to = body.let(kernel.names("to"), ir.Index(0, ((position, 1), (offset, 1))))
        old = self._old(kernel, body, to)
        return to, [body.declare(kernel.names("old"), each) for each in old]

    def _combine_part(
        self,
        kernel: ThreadKernel,
        body: Body,
        cells: Sequence[ir.Cell],
        run: "_Run",
        number: ir.Expression,
        part: int,
    ) -> ir.Expression:
        """Combine the updates of a run from a number on, up to the end of its part; return that."""
        index = ir.Index(0, ((body.let(kernel.names("number"), number), 1),))
        end = body.let(kernel.names("end"), (ir.Quotient(index, part) + 1) * part)
        stop = ir.integer_op("minimum", end, self._updates.count)
        with Loop(body, "n", stop, number, iterations=2) as loop:
            self._stop_behind(kernel, loop, run, loop.axis)
            own = loop.let(kernel.names("own"), kernel.load_integer(run.order, loop.axis))
            self._combine_into(kernel, loop, cells, self._updated(kernel, loop, own, run.free))
        return end

    def _combine_totals(
        self,
        kernel: ThreadKernel,
        body: Body,
        cells: Sequence[ir.Cell],
        run: "_Run",
        totals: Sequence[Array],
        end: ir.Expression,
    ) -> None:
        """Combine the totals of the parts behind the first one that begin with a run's updates."""
        parts, free_count = totals[0].shape.dimensions
        part = self._part()
        first = ir.Quotient(ir.Index(-part, ((end, 1),)), part)
        with Loop(body, "part", parts, first, iterations=1) as loop:
            self._stop_behind(kernel, loop, run, ir.Index(part, ((loop.axis, part),)))
            at = loop.let(kernel.names("at"), ir.Index(0, ((loop.axis, free_count), (run.free, 1))))
            self._combine_into(kernel, loop, cells, self._loaded(kernel, totals, at))

    def _stop_behind(
        self, kernel: ThreadKernel, loop: Loop, run: "_Run", number: ir.Expression
    ) -> None:
        """Leave a loop if a number is not of the run."""
        is_other = ir.condition("ne", kernel.load_integer(run.elements, number), run.element)
        with Branch(loop, is_other) as behind:
            behind.add(Break())

    def _combine_into(
        self,
        kernel: ThreadKernel,
        body: Body,
        cells: Sequence[ir.Cell],
        new: Sequence[ir.Expression],
    ) -> None:
        combined = self._combined(kernel, body, cells, new)
        for cell, each in zip(cells, combined, strict=True):
            body.set(cell, each)


class _Run(NamedTuple):
    """Updates of one element among all in sorted order, and a free number.

    `elements` are the indices of the elements of all, `order` the numbers, `element` is the index
    of the one.
    """

    elements: Array
    order: Array
    element: ir.Expression
    free: ir.Expression
