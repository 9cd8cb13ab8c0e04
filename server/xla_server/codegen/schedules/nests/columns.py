"""Reductions over anything but the last dimension: rows are added to a row of sums.

One loop for each result would stride through memory. Here a block of neighbouring results
accumulates in the result's own memory, and every row that is read is combined into it in one loop.
Sums of many rows are sums of partial sums, which are on the stack, as are results that are narrower
in memory than their computed type.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from xla_server.codegen.kernel_ir import expressions as ir
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
    looking_if_long,
)
from xla_server.codegen.schedules.builders.stored_nodes import all_nodes
from xla_server.codegen.schedules.reductions.reduction_groups import needed_reductions
from xla_server.codegen.schedules.reductions.sum_levels import SumLoop, is_even, steps_of, turn_of
from xla_server.codegen.trace.graph import (
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
from xla_server.ir.affine import Affine, Variable, variable


def column_kernel(nest: Nest) -> ScheduledKernel | None:
    """Return the kernel of stores of reductions that read rows; None for other nests."""
    homes = _homes(nest)
    reductions = list(dict.fromkeys(result.reduction for result in homes))
    if not reductions or not nest.loops or not reductions[0].loops:
        return None
    is_tested = any(
        isinstance(node, Load) and node.guard is not None for node in all_nodes(nest.stores)
    )
    # Unrolled loops leave one loop around them, which is vectorised and keeps its accumulators in
    # registers. Tests of a window's edges are little code only if each of its elements has a loop.
    window = [loop.size for loop in reductions[0].loops]
    if is_short_window(window, nest.target.capability) and not is_tested:
        return None
    last = nest.loops[-1]
    inside = {loop for reduction in reductions for loop in reduction.loops}
    innermost = [reduction.loops[-1] for reduction in reductions]
    # A load that varies with only one of the loops is executed once per row or column either way.
    reads = [
        node
        for node in all_nodes(nest.stores)
        if isinstance(node, Load) and last in node.variables and node.variables & inside
    ]
    along = sum(node.offset.coefficient(last) == 1 for node in reads)
    across = sum(any(node.offset.coefficient(loop) == 1 for loop in innermost) for node in reads)
    if last.size < 4 or along <= across:
        return None
    block = nest.target.tuning.loops.column_block
    return looking_if_long(nest, lambda nest: _ColumnBuilder(nest).built(homes, block))


def _homes(nest: Nest) -> dict[ReductionResult, Store]:
    """Return the store, of its own type, whose buffer holds each reduction's accumulator.

    Empty if there is none for some result, or if the reductions differ in form.
    """
    asked = list(dict.fromkeys(node for store in nest.stores for node in _results_in(store.value)))
    reductions = list(dict.fromkeys(result.reduction for result in asked))
    if any(map(needed_reductions, reductions)):
        return {}
    homes = {
        store.value: store for store in nest.stores if isinstance(store.value, ReductionResult)
    }
    for result in asked:
        free = (store for store in nest.stores if store not in homes.values())
        home = homes.get(result) or next(
            (store for store in free if store.kernel_type.computed == result.type), None
        )
        if home is None or not (home.kernel_type.is_exact or home.value is result):
            return {}
        homes[result] = home
    sizes = {tuple(loop.size for loop in reduction.loops) for reduction in reductions}
    is_whole = len(asked) == sum(len(reduction.accumulators) for reduction in reductions)
    is_single = len(set(map(id, homes.values()))) == len(asked)
    return homes if is_whole and is_single and len(sizes) == 1 and math.prod(*sizes) > 1 else {}


def _is_home(store: Store, homes: Mapping[ReductionResult, Store]) -> bool:
    """Return whether the store's output buffer can hold the accumulator, without an epilogue."""
    is_result = isinstance(store.value, ReductionResult) and homes.get(store.value) is store
    return is_result and store.kernel_type.is_exact


def _results_in(value: Node) -> list[ReductionResult]:
    """Return the results of reductions among a node's transitive inputs."""
    return [node for node in reached([value], own_inputs) if isinstance(node, ReductionResult)]


@dataclasses.dataclass(slots=True)
class _Columns:
    """A block of neighbours along `last`: `size` from `low` on, or all up to `high`.

    `mean` is the mean number of neighbours. `high` is None if all blocks are equally long, and
    `low` too for a single block. `kept` has the stack arrays of results that are not in their own
    memory, `partial` those of partial sums, with `depth` blocks each. If it `calls`, loops that
    only begin or join sums are calls.
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

    @property
    def count(self) -> ir.Expression:
        """The number of neighbours."""
        if self.high is None or self.low is None:
            return ir.Index(self.size)
        return ir.integer_op("sub", self.high, self.low)


@dataclasses.dataclass(frozen=True, slots=True)
class _Element:
    """An element of memory."""

    memory: ir.Memory
    type: Type
    index: ir.Expression

    def load(self) -> ir.Load:
        """Return the load of the element."""
        return ir.Load(self.memory, self.type, self.index)

    def store(self, body: Body, value: ir.Expression, origin: int | None = None) -> None:
        """Append a store to the element."""
        body.add(StoreStatement(self.memory, self.type, self.index, value, origin=origin))


class _ColumnBuilder(LoopBuilder):
    """Builds, for each block, the initial values, then a loop over it for each reduced row.

    A last loop computes the stores from the results.
    """

    def built(self, homes: Mapping[ReductionResult, Store], size: int) -> ScheduledKernel:
        """Return the kernel of blocks of `size` adjacent results, which accumulate in `homes`."""
        reductions = list(dict.fromkeys(result.reduction for result in homes))
        last = self._nest.loops[-1]
        outer = self._nest.loops[:-1]
        blocks = -(-last.size // size)
        items = math.prod(loop.size for loop in outer) * blocks
        axis = item = self._axis("t")
        body = Body(self._top)
        columns = self._columns = _Columns(last, min(size, last.size), last.size / blocks)
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
            if not store.kernel_type.is_exact:
                byte_size = columns.size * Type(result.type).byte_size
                columns.kept[result] = self._stack_array(self._names("p"), byte_size)
        self._reduce_rows(body, reductions)
        if made := [store for store in self._nest.stores if not _is_home(store, homes)]:
            self._finish(body, made)
        self._close_part(body, axis if items > 1 else None, items)
        return self._scheduled()

    def _reduce_rows(self, body: Body, reductions: Sequence[Reduction]) -> None:
        """Combine all rows into a block of results."""
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
        run = self._open_columns(opened[-1])
        for reduction in reductions:
            for own, loop in zip(reduction.loops, reductions[0].loops, strict=True):
                self._indices[own] = self._indices[loop]
                # Accumulators, and values computed from them, change with every element.
                self._bodies[own] = run
        elements = [self._element(depth, store, v) for store, v in results]
        for (_, result), element in zip(results, elements, strict=True):
            accumulator = result.reduction.accumulators[result.number]
            self._values[accumulator] = run.let(self._names("a"), element.load())
        combined = [self._value(v.reduction.combined[v.number]) for _, v in results]
        counted: dict[Reduction, int | None] = {
            reduction: self._origin(reduction) for reduction in reductions
        }
        for (_, result), element, value in zip(results, elements, combined, strict=True):
            element.store(run, value, counted.pop(result.reduction, None))
        opened.append(run)
        for step in reversed(steps) if columns.partial else ():
            opened.pop().close()
            if step.begins:
                self._join(depth, opened[-1])
                depth -= 1
        close(opened)

    def _may_call(self) -> bool:
        """Return whether loops along a block that begin or join results can be calls."""
        columns, results, tuned = self._columns, self._homes, self._tuned
        last, size, summed = columns.last, columns.size, columns.partial
        rows = math.prod(loop.size for loop in results[0][1].reduction.loops)
        if size < tuned.min_call_columns or size * rows < tuned.min_call_elements:
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
        """Begin the loops over rows, split if there are partial sums."""
        columns = self._columns
        if not columns.partial:
            return self._open_loops(reductions[0].loops, body)
        opened = []
        bounds: dict[int, tuple[ir.Expression, ir.Expression]] = {}
        for number, step in enumerate(steps):
            even = is_even(steps, step)
            body = loop = self._open_step(reductions, step, bounds, body, is_even=even)
            opened.append(loop)
            if self._word and step.begins and turn_of(steps, number) * columns.size >= SPAN:
                loop.add(Stop(self._word))
        return opened

    def _element(self, depth: int, store: Store, result: ReductionResult) -> _Element:
        """Return an element of a block's results at a depth: 0 for the result itself."""
        columns = self._columns
        is_inside = result in columns.partial and depth > 0
        array = columns.partial[result] if is_inside else columns.kept.get(result)
        if array is None:
            kind = Type(store.kernel_type.storage)
            return _Element(self._buffers[store.argument], kind, self._index(store.offset))
        own = self._indices[columns.last]
        if columns.low is not None:
            own = ir.integer_op("sub", own, columns.low)
        if is_inside and depth > 1:
            own = ir.integer_op("add", own, (depth - 1) * columns.size)
        return _Element(array, Type(result.type), own)

    def _address(self, depth: int, store: Store, result: ReductionResult) -> ir.Address:
        """Return the address of the first of a block's results at a depth."""
        columns = self._columns
        width = Type(result.type).byte_size
        if result in columns.partial and depth:
            return ir.Address(columns.partial[result], ir.Index((depth - 1) * columns.size), width)
        index = ir.plus(self._index(_row_start(store, columns.last)), columns.low or 0)
        return ir.Address(self._buffers[store.argument], index, width)

    def _open_columns(self, body: Body) -> Loop:
        """Begin a loop over a block of neighbours.

        If blocks are equally long, its length is constant: LLVM then needs no remainder loop.
        """
        columns = self._columns
        if columns.low is None:
            return self._open(columns.last, body, columns.size)
        if columns.high is not None:
            return self._open(columns.last, body, columns.high, columns.low, columns.mean)
        name = self._names("i")
        run = Loop(body, self._names("i"), columns.size)
        self._indices[columns.last] = run.let(name, ir.integer_op("add", columns.low, run.axis))
        self._bodies[columns.last] = run
        return run

    def _finish(self, body: Body, made: Sequence[Store]) -> None:
        """Append the loop that computes the stores from a block of results."""
        # Values of earlier loops are out of scope here.
        known_values, last = self._values.items(), self._columns.last
        self._values = {n: value for n, value in known_values if last not in n.variables}
        run = self._open_columns(body)
        for store, result in self._homes:
            name, element = self._names("a"), self._element(0, store, result)
            self._values[result] = run.let(name, element.load())
        self._store(made, body)
        run.close()

    def _begin_columns(self, body: Body) -> None:
        """Set a block of results to the initial values, and partial sums to neutral elements."""
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
        run = self._open_columns(body)
        for (store, result), value in zip(results, starts, strict=True):
            self._element(0, store, result).store(run, value)
            for depth in range(1, columns.depth + 1) if result in columns.partial else ():
                neutral = self._value(_reassociation(result).neutral)
                self._element(depth, store, result).store(run, neutral)
        run.close()

    def _join(self, depth: int, body: Body) -> None:
        """Add the sums at a depth to those of the next outer one, and begin new ones."""
        columns = self._columns
        summed = [(store, result) for store, result in self._homes if result in columns.partial]
        if columns.calls:
            for store, result in summed:
                inside = self._address(depth, store, result)
                outside = self._address(depth - 1, store, result)
                given = {"outside": outside, "inside": inside, "count": columns.count}
                body.call(COLUMN_SUMS[f"join_{result.type}"].routine, given)
            return
        run = self._open_columns(body)
        for store, result in summed:
            own = self._element(depth, store, result)
            around = self._element(depth - 1, store, result)
            parts = around.load(), own.load()
            around.store(run, ir.Apply(_reassociation(result).ordered, parts, own.type))
            own.store(run, self._value(_reassociation(result).neutral))
        run.close()


def _reassociation(result: ReductionResult) -> Reassociation:
    """Return how partial results of a sum or a product are combined."""
    assert result.reduction.reassociates is not None
    return result.reduction.reassociates


def _row_start(store: Store, last: Variable) -> Affine:
    """Return the index of a row's start; it has `last` unless neighbours are contiguous."""
    return store.offset + variable(last) * -1


def _fill(address: ir.Address, count: ir.Expression, kind: str, value: ir.Expression) -> Call:
    """Return the call that writes a value to `count` neighbours."""
    width = Type(kind).byte_size
    bits = ir.Apply(f"bits_{FILLED[width]}", (value,), Type(FILLED[width]))
    given = {"address": address, "count": count, "bits": ir.integer_op("to_i64", bits)}
    return Call.of(COLUMN_SUMS[f"fill_{8 * width}"].routine, given)
