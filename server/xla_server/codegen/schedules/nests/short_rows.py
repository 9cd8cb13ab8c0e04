"""Kernels over short rows, which compute the values that a row needs once for many rows at once.

The logarithm of one row's sum takes as long as a vector of sixteen rows' logarithms. For short rows
that is a large share of the time, so each block of 64 rows takes three loops. The first reduces
each row. The second computes values from the reductions' results, vectorised across rows. The third
visits the rows' elements and reads the results of the other two from the stack.
"""

import math
from collections.abc import Sequence

from xla_server.codegen.kernel_ir.analysis.counts import cost_of
from xla_server.codegen.kernel_ir.builder import Body, Loop
from xla_server.codegen.kernel_ir.expressions import STOP, StackArray, Value, integer_op
from xla_server.codegen.kernel_ir.expressions import Load as LoadExpression
from xla_server.codegen.kernel_ir.statements import ParallelFor
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.schedules.builders.launches.scheduled import ScheduledKernel
from xla_server.codegen.schedules.builders.loop_builder import LoopBuilder, Nest
from xla_server.codegen.schedules.builders.row_buffers import row_buffers
from xla_server.codegen.schedules.reductions.reduction_groups import reduction_groups
from xla_server.codegen.trace.graph import (
    Apply,
    Immediate,
    Node,
    ReductionResult,
    own_inputs,
    reached,
    roots_of,
)
from xla_server.ir.traversal import in_post_order


def short_row_kernel(nest: Nest) -> ScheduledKernel | None:
    """Return the kernel of many short rows; None if their heads (`_heads`) are cheap or absent."""
    sizes, tuned = [loop.size for loop in nest.loops], nest.target.tuning.loops
    if not sizes or sizes[-1] > tuned.max_short_row:
        return None
    if math.prod(sizes[:-1]) < tuned.short_row_block:
        return None
    heads = _heads(nest)
    costs = [cost_of(node.function) for node in _behind(heads) if isinstance(node, Apply)]
    if max(costs, default=0) < tuned.min_head_work:
        return None
    kept = row_buffers(nest.loops, nest.stores, reduction_groups(nest.stores), tuned)
    # Row buffers hold the values of one row, not of a block.
    if kept.rows or kept.same:
        return None
    return _ShortRowBuilder(nest, heads).built()


def _heads(nest: Nest) -> list[Node]:
    """Return the heads: nodes that are constant along a row and read by the row's elements."""
    outer = frozenset(nest.loops[:-1])
    found = reached(
        roots_of(nest.stores), lambda node: () if node.variables <= outer else node.inputs()
    )
    return [
        node
        for node in found
        if node.variables and node.variables <= outer and isinstance(node, Apply | ReductionResult)
    ]


def _behind(heads: Sequence[Node]) -> list[Node]:
    """Return the heads and the nodes they are computed from, back to results of reductions.

    Nodes that depend on no reduction are left out: any schedule vectorises them across rows.
    """
    behind: dict[Node, None] = {}
    for node in in_post_order(heads, own_inputs):
        if isinstance(node, ReductionResult) or any(part in behind for part in node.inputs()):
            behind[node] = None
    return list(behind)


def _are_floats(heads: Sequence[Node]) -> bool:
    """Return whether all nodes after reductions are float arithmetic, defined for every operand."""
    nodes = reached(heads, lambda node: node.operands if isinstance(node, Apply) else ())
    return all(
        isinstance(node, Apply | ReductionResult | Immediate) and node.type in ("f32", "f64")
        for node in nodes
    )


class _ShortRowBuilder(LoopBuilder):
    def __init__(self, nest: Nest, heads: Sequence[Node]) -> None:
        super().__init__(nest)
        self._heads = heads
        self._arrays: dict[Node, StackArray] = {}
        self._block = self._tuned.short_row_block
        items = math.prod(loop.size for loop in nest.loops[:-1])
        self._rows = items / math.ceil(items / self._block)

    def built(self) -> ScheduledKernel:
        """Return the kernel."""
        outer = self._nest.loops[:-1]
        self._allocate_rows()
        results = [node for node in _behind(self._heads) if isinstance(node, ReductionResult)]
        computed = [node for node in self._heads if not isinstance(node, ReductionResult)]
        read = [node for node in _behind(computed) if isinstance(node, ReductionResult)]
        for number, node in enumerate(dict.fromkeys([*results, *computed])):
            byte_size = self._block * Type(node.type).byte_size
            self._arrays[node] = self._stack_array(f"head{number}", byte_size)
        first, end = self._axis("t"), self._names("t")
        items = math.prod(loop.size for loop in outer)
        block = Body(self._top)
        last = block.let(end, integer_op("minimum", integer_op("add", first, self._block), STOP))
        body, at = self._begin_rows(block, first, last)
        self._spill(results, body, at)
        body.close()
        if _are_floats(self._heads):
            # The loop covers undefined values beyond the last row: whole vectors are less code
            # than a remainder loop.
            self._forget()
            body = self._bind(Loop(block, self._names("i"), self._block))
            at = body.axis
        else:
            body, at = self._begin_rows(block, first, last)
        self._reload(read, body, at)
        self._spill(computed, body, at)
        body.close()
        body, at = self._begin_rows(block, first, last)
        self._reload(self._heads, body, at)
        inner = self._open(self._nest.loops[-1], body)
        self._store(self._nest.stores, body)
        inner.close()
        body.close()
        self._top.add(ParallelFor(first, items, tuple(block.statements), step=self._block))
        return self._scheduled()

    def _forget(self) -> None:
        """Forget the values that vary with rows, as another loop over rows begins."""
        self._values = {node: v for node, v in self._values.items() if not node.variables}
        self._results = {
            reduction: v for reduction, v in self._results.items() if not reduction.variables
        }

    def _bind(self, body: Loop) -> Loop:
        """Evaluate values that vary with rows in this loop from now on; return the loop."""
        for loop in self._nest.loops[:-1]:
            self._bodies[loop] = body
        return body

    def _begin_rows(self, block: Body, first: Value, last: Value) -> tuple[Loop, Value]:
        """Begin a loop over the rows of a block; return it and the row's number in the block."""
        self._forget()
        at, row = self._names("i"), self._names("t")
        body = self._bind(Loop(block, row, last, first, iterations=self._rows))
        number = body.let(at, integer_op("sub", body.axis, first))
        self._open_outer(self._nest.loops[:-1], body.axis, body)
        return body, number

    def _spill(self, nodes: Sequence[Node], body: Body, at: Value) -> None:
        """Evaluate nodes and store them for later loops."""
        for node in nodes:
            body.store(self._arrays[node], node.type, at, self._value(node))

    def _reload(self, nodes: Sequence[Node], body: Body, at: Value) -> None:
        """Load nodes that an earlier loop stored."""
        for node in nodes:
            load = LoadExpression(self._arrays[node], Type(node.type), at)
            self._values[node] = body.let(self._names("v"), load)
