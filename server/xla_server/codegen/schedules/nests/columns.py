"""Reductions over dimensions before the last: rows are added to a row of accumulators.

One loop per result would stride through memory. Here the accumulators of a block of adjacent
results are stored in the output buffer, and each row is combined into them by one contiguous loop.
Long sums are pairwise: their partial sums are on the stack. So are accumulators whose computed type
is wider than the element type.

A block of fewer than 64 results is kept on the stack as whole vectors, the last of which may
overlap the one before it. Several rows are combined into each vector while it is in a register.
Each result is made of the same elements in the same order, and is stored from one vector or from
two.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence, Set

from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.analysis.counts import cost_of
from xla_server.codegen.kernel_ir.builder import Body, Loop
from xla_server.codegen.kernel_ir.statements import Call, Stop
from xla_server.codegen.kernel_ir.statements import Store as StoreStatement
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.routines.column_sums import COLUMN_SUMS, FILLED, JOINED
from xla_server.codegen.schedules.builders.launches.scheduled import ScheduledKernel
from xla_server.codegen.schedules.builders.launches.stopping import SPAN
from xla_server.codegen.schedules.builders.loop_builder import (
    LoopBuilder,
    Nest,
    close,
    polling_nest_if_long,
)
from xla_server.codegen.schedules.builders.stored_nodes import all_nodes
from xla_server.codegen.schedules.reductions.reduction_groups import (
    MIN_COLUMNS,
    needed_reductions,
    reads_along,
)
from xla_server.codegen.schedules.reductions.sum_levels import SumLoop, is_even, size_of, steps_of
from xla_server.codegen.trace.graph import (
    Apply,
    Load,
    Node,
    Reassociation,
    Reduction,
    ReductionResult,
    Store,
    own_inputs,
    reached,
    variables_of,
)
from xla_server.fusion.analysis.windows import is_short_window
from xla_server.ir.analysis.affine import Affine, Variable, variable
from xla_server.target.loop_tuning import MAX_UNROLLED_ITERATIONS


def column_kernel(nest: Nest) -> ScheduledKernel | None:
    """Return the kernel of stores computed from reductions that read rows, else None."""
    homes = _homes(nest)
    reductions = list(dict.fromkeys(result.reduction for result in homes))
    if not reductions or not nest.loops or not reductions[0].loops:
        return None
    is_tested = any(
        isinstance(node, Load) and node.guard is not None for node in all_nodes(nest.stores)
    )
    # A short window is better unrolled: the loop around it is vectorised, with accumulators in
    # registers. Windows with tests of their edges would be too much code unrolled.
    window = [loop.size for loop in reductions[0].loops]
    if is_short_window(window, nest.target.capability) and not is_tested:
        return None
    last = nest.loops[-1]
    if last.size < MIN_COLUMNS or not reads_along(last, reductions, nest.stores):
        return None
    block = nest.target.tuning.loops.column_block
    return polling_nest_if_long(nest, lambda nest: _ColumnBuilder(nest).built(homes, block))


def _homes(nest: Nest) -> dict[ReductionResult, Store]:
    """Return the store whose output buffer holds the accumulator of each reduction.

    It computes in the accumulator's type, and stores a narrower one only for the result itself.
    Empty if a result has no such store or is unused, a reduction needs another's, or loops differ
    in length.
    """
    results = list(
        dict.fromkeys(node for store in nest.stores for node in _results_in(store.value))
    )
    reductions = list(dict.fromkeys(result.reduction for result in results))
    if any(map(needed_reductions, reductions)):
        return {}
    homes = {
        store.value: store for store in nest.stores if isinstance(store.value, ReductionResult)
    }
    for result in results:
        free = (store for store in nest.stores if store not in homes.values())
        home = homes.get(result) or next(
            (store for store in free if store.kernel_type.computed == result.type), None
        )
        if home is None or not (home.kernel_type.is_exact or home.value is result):
            return {}
        homes[result] = home
    sizes = {tuple(loop.size for loop in reduction.loops) for reduction in reductions}
    is_whole = len(results) == sum(len(reduction.accumulators) for reduction in reductions)
    is_single = len(set(map(id, homes.values()))) == len(results)
    return homes if is_whole and is_single and len(sizes) == 1 and math.prod(*sizes) > 1 else {}


def _is_home(store: Store, homes: Mapping[ReductionResult, Store]) -> bool:
    """Return whether the store's output buffer can hold the accumulator, without an epilogue."""
    is_result = isinstance(store.value, ReductionResult) and homes.get(store.value) is store
    return is_result and store.kernel_type.is_exact


def _results_in(value: Node) -> list[ReductionResult]:
    """Return the reduction results that a node is computed from."""
    return [node for node in reached([value], own_inputs) if isinstance(node, ReductionResult)]


@dataclasses.dataclass(slots=True)
class _Columns:
    """A block of adjacent results along `last`: `size` from `low` on, or those up to `high`.

    `mean` is the mean length of a block. `high` is None if all blocks are equally long, `low` too
    if there is one block. `kept` are the accumulators that are not in the output buffer. `partial`
    are the partial sums of pairwise sums: `depth` blocks each. If it `calls`, loops that only
    initialise or join sums are calls of routines. A narrow block consists of vectors of `vector`
    elements; other blocks have `vector` 0. `own` is the index of the current result in the block.
    """

    last: Variable
    size: int
    mean: float
    low: ir.Expression | None = None
    high: ir.Expression | None = None
    depth: int = 0
    partial: dict[ReductionResult, ir.StackArray] = dataclasses.field(default_factory=dict)
    kept: dict[ReductionResult, ir.StackArray] = dataclasses.field(default_factory=dict)
    calls: bool = False
    vector: int = 0
    own: ir.Expression = dataclasses.field(default_factory=lambda: ir.Index(0))

    @property
    def count(self) -> ir.Expression:
        """The number of results in the block."""
        if self.high is None or self.low is None:
            return ir.Index(self.size)
        return ir.integer_op("sub", self.high, self.low)


@dataclasses.dataclass(frozen=True, slots=True)
class _Element:
    """An element in a buffer or on the stack."""

    memory: ir.Memory
    type: Type
    index: ir.Expression

    def load(self) -> ir.Load:
        """Return the load of the element."""
        return ir.Load(self.memory, self.type, self.index)

    def store(self, body: Body, value: ir.Expression, origin: int | None = None) -> None:
        """Add a store to the element."""
        body.add(StoreStatement(self.memory, self.type, self.index, value, origin=origin))


class _ColumnBuilder(LoopBuilder):
    """Builds, for each block: initial values, a loop over the block per row, and the epilogue.

    The epilogue computes results from the reduced ones, in a last loop over the block.
    """

    def built(self, homes: Mapping[ReductionResult, Store], size: int) -> ScheduledKernel:
        """Return the kernel for blocks of `size` adjacent results with accumulators in `homes`."""
        reductions = list(dict.fromkeys(result.reduction for result in homes))
        last = self._nest.loops[-1]
        outer = self._nest.loops[:-1]
        blocks = -(-last.size // size)
        items = math.prod(loop.size for loop in outer) * blocks
        axis = item = self._axis("t")
        body = Body(self._top)
        columns = self._columns = _Columns(last, min(size, last.size), last.size / blocks)
        if last.size < self._nest.target.tuning.short_loops.max_iterations:
            width = max(Type(result.type).byte_size for result in homes)
            lanes = max(2, self._nest.target.machine.vector_bytes // width)
            columns.vector = min(lanes, 1 << last.size.bit_length() - 1)
            columns.size = -(-last.size // columns.vector) * columns.vector
        if blocks > 1:
            rest, low = self._names("t"), self._names("i")
            block = ir.integer_op("whole_mod", axis, blocks)
            columns.low = body.let(low, ir.integer_op("mul", block, size))
            item = body.let(rest, ir.integer_op("whole_div", axis, blocks))
            if last.size % size:
                end = ir.integer_op("add", columns.low, size)
                columns.high = body.let(self._names("i"), ir.integer_op("minimum", end, last.size))
        self._open_outer(outer, item, body)
        self._homes = [(store, result) for result, store in homes.items()]
        for store, result in self._homes:
            if columns.vector or not store.kernel_type.is_exact:
                byte_size = columns.size * Type(result.type).byte_size
                columns.kept[result] = self._stack_array(self._names("p"), byte_size)
        self._reduce_rows(body, reductions)
        held = {} if columns.vector else homes
        if made := [store for store in self._nest.stores if not _is_home(store, held)]:
            self._finish(body, made)
        self._close_part(body, axis if items > 1 else None, items)
        return self._scheduled()

    def _reduce_rows(self, body: Body, reductions: Sequence[Reduction]) -> None:
        """Build the loops that combine all rows into a block of accumulators."""
        columns, results = self._columns, self._homes
        steps = steps_of([loop.size for loop in reductions[0].loops])
        depth = sum(step.begins for step in steps)
        if depth:
            columns.depth = depth
            summed = [v for _, v in results if v.reduction.reassociates is not None]
            names = [self._names("p") for _ in summed]
            for name, result in zip(names, summed, strict=True):
                byte_size = depth * columns.size * Type(result.type).byte_size
                columns.partial[result] = self._stack_array(name, byte_size)
        columns.calls = self._may_call()
        self._begin_columns(body)
        opened = self._open_rows(reductions, steps, body)
        rows = opened.pop()
        if columns.vector:
            is_known = ir.known(rows.bounds[1]) is not None
            is_known = is_even(steps, steps[-1]) if columns.partial else is_known
            self._combine_groups(rows, opened[-1] if opened else body, depth, is_known=is_known)
        else:
            self._combine(rows, depth)
        for step in reversed(steps[:-1]) if columns.partial else ():
            if step.begins:
                self._join(depth, opened[-1])
                depth -= 1
            opened.pop().close()
        close(opened)

    def _combine_groups(self, rows: Loop, outside: Body, depth: int, *, is_known: bool) -> None:
        """Combine groups of a loop's rows, each group in registers, then the remaining rows.

        If the number of rows is not `is_known`, the loop has only its mean.
        """
        (low, high), count, names = rows.bounds, int(rows.iterations), self._names
        at_once = self._rows_at_once(count)
        rest = count % at_once if is_known else 1
        middle: ir.Expression
        if is_known:
            middle = ir.plus(low, count - rest)
        else:
            left = ir.integer_op("whole_mod", ir.integer_op("sub", high, low), at_once)
            middle = outside.let(names("i"), ir.integer_op("sub", high, left))
        groups = Loop(outside, names("i"), middle, low, step=at_once, iterations=count // at_once)
        self._combine(groups, depth, at_once)
        if rest:
            mean = 1 if is_known else at_once / 2
            last = Loop(outside, names("i"), high, middle, step=rest, iterations=mean)
            self._combine(last, depth, rest)

    def _rows_at_once(self, rows: int) -> int:
        """Return the size of a group of rows: a divisor of `rows`, unless all are too small."""
        inside = {loop for _, result in self._homes for loop in result.reduction.loops}
        nodes = (node for node in all_nodes(self._nest.stores) if isinstance(node, Apply))
        work = sum(cost_of(node.function) for node in nodes if node.variables & inside)
        most = max(
            2, min(MAX_UNROLLED_ITERATIONS, self._tuned.row_group_work // max(1, work), rows)
        )
        return next((n for n in range(most, most // 2, -1) if rows % n == 0), most)

    def _combine(self, rows: Loop, depth: int, at_once: int = 0) -> None:
        """Combine `at_once` rows, or one if that is 0, of an iteration into a block of results."""
        results, names = self._homes, self._names
        reductions = list(dict.fromkeys(result.reduction for _, result in results))
        loops = reductions[0].loops
        opened = self._open_columns(rows)
        run = body = opened[-1]
        elements = [self._element(depth, store, v) for store, v in results]
        if at_once:
            self._forget({self._columns.last, *(each.loops[-1] for each in reductions)})
            cells = [run.declare(names("a"), element.load()) for element in elements]
            body = Loop(run, names("i"), at_once)
            self._indices[loops[-1]] = body.let(names("i"), ir.plus(rows.axis, body.axis))
            opened.append(body)
        # Accumulators change with every element, and so do the values computed from them.
        self._bodies[loops[-1]] = body
        for reduction in reductions:
            for own, loop in zip(reduction.loops, loops, strict=True):
                self._indices[own] = self._indices[loop]
                self._bodies[own] = self._bodies[loop]
        starts: Sequence[ir.Expression] = (
            cells if at_once else [run.let(names("a"), each.load()) for each in elements]
        )
        for (_, result), start in zip(results, starts, strict=True):
            self._values[result.reduction.accumulators[result.number]] = start
        combined = [self._value(v.reduction.combined[v.number]) for _, v in results]
        counted: dict[Reduction, int | None] = {
            reduction: self._origin(reduction) for reduction in reductions
        }
        for number, (_, result) in enumerate(results):
            origin = counted.pop(result.reduction, None)
            if at_once:
                body.set(cells[number], combined[number], origin)
            else:
                elements[number].store(run, combined[number], origin)
        if at_once:
            opened.pop().close()
            for element, cell in zip(elements, cells, strict=True):
                element.store(run, cell)
        close([rows, *opened])

    def _forget(self, loops: Set[Variable]) -> None:
        """Forget values of other loops, which are out of scope."""
        self._values = {n: value for n, value in self._values.items() if not n.variables & loops}

    def _may_call(self) -> bool:
        """Return whether loops that initialise or join sums can be calls of routines."""
        columns, results, tuned = self._columns, self._homes, self._tuned
        last, size, summed = columns.last, columns.size, columns.partial
        rows = math.prod(loop.size for loop in results[0][1].reduction.loops)
        if columns.vector or size < tuned.min_call_columns or size * rows < tuned.min_call_elements:
            return False
        return all(
            result.type == store.kernel_type.storage
            and result.type[0] in "iuf"
            and Type(result.type).byte_size in FILLED
            and last not in variables_of(_row_start(store, last))
            and last not in result.reduction.initial[result.number].variables
            and (
                result not in summed
                or (_reassociation(result).ordered == "add" and result.type in JOINED)
            )
            for store, result in results
        )

    def _open_rows(
        self, reductions: Sequence[Reduction], steps: Sequence[SumLoop], body: Body
    ) -> list[Loop]:
        """Begin the loops over rows; those of pairwise sums are cut into steps."""
        columns = self._columns
        if not columns.partial:
            return self._open_loops(reductions[0].loops, body)
        opened = []
        bounds: dict[int, tuple[ir.Expression, ir.Expression]] = {}
        for number, step in enumerate(steps):
            even = is_even(steps, step)
            body = loop = self._open_step(reductions, step, bounds, body, is_even=even)
            opened.append(loop)
            if self._flag and step.begins and size_of(steps, number) * columns.size >= SPAN:
                loop.add(Stop(self._flag))
        return opened

    def _element(self, depth: int, store: Store, result: ReductionResult) -> _Element:
        """Return the element of a sum at a depth of pairwise summation; depth 0 is the result."""
        columns = self._columns
        is_inside = result in columns.partial and depth > 0
        array = columns.partial[result] if is_inside else columns.kept.get(result)
        if array is None:
            kind = Type(store.kernel_type.storage)
            return _Element(self._buffers[store.argument], kind, self._index(store.offset))
        own = columns.own
        if is_inside and depth > 1:
            own = ir.integer_op("add", own, (depth - 1) * columns.size)
        return _Element(array, Type(result.type), own)

    def _address(self, depth: int, store: Store, result: ReductionResult) -> ir.Address:
        """Return the address of a block's first sum at a depth of pairwise summation."""
        columns = self._columns
        width = Type(result.type).byte_size
        if result in columns.partial and depth:
            return ir.Address(columns.partial[result], ir.Index((depth - 1) * columns.size), width)
        index = ir.plus(self._index(_row_start(store, columns.last)), columns.low or 0)
        return ir.Address(self._buffers[store.argument], index, width)

    def _open_columns(self, body: Body) -> list[Loop]:
        """Begin a loop over a block, or loops over its vectors and over the elements of each.

        Blocks of equal length have a constant bound, so LLVM needs no remainder loop. The last of
        several vectors ends where the block ends, and may overlap the one before it.
        """
        columns, names, opened = self._columns, self._names, []
        last, lanes, begin = columns.last, columns.vector, ir.whole(0)
        if lanes == columns.size:
            columns.low = begin
        elif lanes:
            body = vectors = Loop(body, names("i"), columns.size // lanes)
            begin = ir.times(vectors.axis, lanes)
            columns.low = body.let(names("i"), ir.integer_op("minimum", begin, last.size - lanes))
            opened.append(vectors)
        if columns.low is None:
            run = self._open(last, body, columns.size)
        elif columns.high is not None:
            run = self._open(last, body, columns.high, columns.low, columns.mean)
        else:
            name = names("i")
            run = Loop(body, names("i"), lanes or columns.size, vectorised=lanes > 0)
            self._indices[last] = run.let(name, ir.integer_op("add", columns.low, run.axis))
            self._bodies[last] = run
        own = run.axis if lanes else ir.integer_op("sub", self._indices[last], columns.low or 0)
        columns.own = ir.plus(begin, own)
        return [*opened, run]

    def _finish(self, body: Body, made: Sequence[Store]) -> None:
        """Build the epilogue: the stores that are computed from a block of results."""
        self._forget({self._columns.last})
        opened = self._open_columns(body)
        run = opened[-1]
        for store, result in self._homes:
            name, element = self._names("a"), self._element(0, store, result)
            self._values[result] = run.let(name, element.load())
        self._store(made, body)
        close(opened)

    def _begin_columns(self, body: Body) -> None:
        """Initialise a block of accumulators, and partial sums with neutral elements."""
        columns, results = self._columns, self._homes
        starts = [self._value(v.reduction.initial[v.number]) for _, v in results]
        if columns.calls:
            for (store, result), value in zip(results, starts, strict=True):
                address = self._address(0, store, result)
                body.add(_fill(address, columns.count, result.type, value))
                if result in columns.partial:
                    neutral = self._value(_reassociation(result).neutral)
                    address = ir.Address(columns.partial[result])
                    count = ir.Index(columns.depth * columns.size)
                    body.add(_fill(address, count, result.type, neutral))
            return
        opened = self._open_columns(body)
        run = opened[-1]
        for (store, result), value in zip(results, starts, strict=True):
            self._element(0, store, result).store(run, value)
            for depth in range(1, columns.depth + 1) if result in columns.partial else ():
                neutral = self._value(_reassociation(result).neutral)
                self._element(depth, store, result).store(run, neutral)
        close(opened)

    def _join(self, depth: int, body: Body) -> None:
        """Add the partial sums at a depth to those one level up, and reset them."""
        columns = self._columns
        summed = [(store, result) for store, result in self._homes if result in columns.partial]
        if columns.calls:
            for store, result in summed:
                inside = self._address(depth, store, result)
                outside = self._address(depth - 1, store, result)
                operands = {"outside": outside, "inside": inside, "count": columns.count}
                body.call(COLUMN_SUMS[f"join_{result.type}"].routine, operands)
            return
        opened = self._open_columns(body)
        run = opened[-1]
        for store, result in summed:
            own = self._element(depth, store, result)
            around = self._element(depth - 1, store, result)
            parts = around.load(), own.load()
            around.store(run, ir.Apply(_reassociation(result).ordered, parts, own.type))
            own.store(run, self._value(_reassociation(result).neutral))
        close(opened)


def _reassociation(result: ReductionResult) -> Reassociation:
    """Return how partial results of a sum or a product are combined."""
    assert result.reduction.reassociates is not None
    return result.reduction.reassociates


def _row_start(store: Store, last: Variable) -> Affine:
    """Return the offset of a store's row, which has `last` in it if the row is not contiguous."""
    return store.offset + variable(last) * -1


def _fill(address: ir.Address, count: ir.Expression, kind: str, value: ir.Expression) -> Call:
    """Return the call that fills `count` contiguous elements with a value."""
    width = Type(kind).byte_size
    bits = ir.Apply(f"bits_{FILLED[width]}", (value,), Type(FILLED[width]))
    operands = {"address": address, "count": count, "bits": ir.integer_op("to_i64", bits)}
    return Call.of(COLUMN_SUMS[f"fill_{8 * width}"].routine, operands)
