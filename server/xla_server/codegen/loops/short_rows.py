"""Kernels over short rows: what is computed once for a row is computed for many rows at once.

The logarithm of a row's sum takes as long as those of sixteen rows' sums. Where rows are short that
is much beside the rest, so a trip's work is done in three loops over a block of rows: the first
reduces each row, the second computes what follows from that, row beside row, and the third goes
through the rows again with what the others have kept on the stack.
"""

import math
from collections.abc import Sequence

from xla_server.codegen.loops.block import Block, calls_of
from xla_server.codegen.loops.fold_groups import fold_groups
from xla_server.codegen.loops.function_calls import FunctionCalls
from xla_server.codegen.loops.kept_rows import cost_of, kept_rows, width_of
from xla_server.codegen.loops.nest import Nest, Printer, Source
from xla_server.codegen.loops.stored_nodes import all_nodes
from xla_server.codegen.trace.graph import Apply, Folded, Literal, Node, nodes_of

LONGEST = 64
"""Elements of a row, beyond which its head costs little beside them."""

ROWS = 64
"""Rows of a block."""

WORTH = 6
"""Cheap operations that an operation must take to be worth it: a division or a root."""


def short_row_source(nest: Nest) -> Source | None:
    """The text of a nest over many short rows; None where their heads are cheap or not there."""
    sizes = [loop.size for loop in nest.loops]
    if not sizes or sizes[-1] > LONGEST or math.prod(sizes[:-1]) < ROWS:
        return None
    heads = _heads(nest)
    if not any(isinstance(node, Apply) and cost_of(node) >= WORTH for node in _behind(heads)):
        return None
    kept = kept_rows(nest.loops, nest.stores, fold_groups(nest.stores))
    # A row's values are kept for one row, not for a block.
    if kept.rows or kept.same:
        return None
    return _ShortRowPrinter(nest, heads).printed()


def _heads(nest: Nest) -> list[Node]:
    """What is computed once for each row, and read by what is computed for its elements."""
    outer = frozenset(nest.loops[:-1])
    found: dict[Node, None] = {}
    seen: set[Node] = set()
    waiting = [node for store in nest.stores for node in (store.value, *nodes_of(store.offset))]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if not node.variables <= outer:
            waiting += node.inputs()
        elif node.variables and isinstance(node, (Apply, Folded)):
            found[node] = None
    return list(found)


def _behind(heads: Sequence[Node]) -> list[Node]:
    """What heads are computed from, they themselves included, up to results of folds.

    What no fold comes before could be computed for many rows in any kernel; it is left out.
    """
    order: dict[Node, bool] = {}
    waiting = [(head, False) for head in reversed(heads)]
    while waiting:
        node, is_ready = waiting.pop()
        if node in order:
            continue
        inputs = () if isinstance(node, Folded) else tuple(node.inputs())
        if is_ready or not inputs:
            order[node] = isinstance(node, Folded) or any(order[part] for part in inputs)
        else:
            waiting.append((node, True))
            waiting += [(part, False) for part in reversed(inputs)]
    return [node for node, is_behind in order.items() if is_behind]


def _are_floats(heads: Sequence[Node]) -> bool:
    """Whether what follows from folds can be computed of any numbers, and of nothing else."""
    waiting, seen = list(heads), set(heads)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, (Apply, Folded, Literal)) or node.type not in ("f32", "f64"):
            return False
        if isinstance(node, Apply):
            waiting += (part for part in node.operands if part not in seen)
            seen.update(node.operands)
    return True


class _ShortRowPrinter(Printer):
    def __init__(self, nest: Nest, heads: Sequence[Node]) -> None:
        super().__init__(nest)
        self._heads = heads
        self._rooms: dict[Node, str] = {}
        self._trip = self._first = ""
        self._rows = float(ROWS)

    def printed(self) -> Source:
        """The text."""
        outer = self._nest.loops[:-1]
        self._name_buffers()
        self._name_rows()
        self._calls = FunctionCalls(all_nodes(self._nest.stores), outer)
        results = [node for node in _behind(self._heads) if isinstance(node, Folded)]
        computed = [node for node in self._heads if not isinstance(node, Folded)]
        read = [node for node in _behind(computed) if isinstance(node, Folded)]
        for number, node in enumerate(dict.fromkeys([*results, *computed])):
            self._rooms[node] = f"head{number}"
            self._top.add(f"head{number} = room_for({ROWS * width_of(node.type)})")
        first, end = self._fresh("t"), self._fresh("t")
        trips = math.prod(loop.size for loop in outer)
        work = self._work(outer)
        block = self._begin_items(trips, work)
        calls = calls_of(trips, work, self._prologue_work)
        block.iterations = math.ceil(math.ceil(trips / calls) / ROWS)
        self._rows = trips / (calls * block.iterations)
        block.add(f"{end} = minimum(add({first}, {ROWS}), stop)")
        body, at = self._begin_rows(block, first)
        self._keep(results, body, at)
        self._end_rows(block, body, end)
        if _are_floats(self._heads):
            # Of rows that there are not, whatever is found there: whole vectors are less code.
            body, at = self._begin_block(block)
            body.iterations = ROWS
            self._recall(read, body, at)
            self._keep(computed, body, at)
            block.add(f"for {at} in range({ROWS}):")
            block.lines += body.lines
        else:
            body, at = self._begin_rows(block, first)
            self._recall(read, body, at)
            self._keep(computed, body, at)
            self._end_rows(block, body, end)
        body, at = self._begin_rows(block, first)
        self._recall(self._heads, body, at)
        inner = Block(4, body, self._nest.loops[-1].size)
        self._open(self._nest.loops[-1], inner)
        self._store(self._nest.stores, body)
        loop = self._nest.loops[-1]
        body.add(f"for {self._loop_names[loop]} in range({loop.size}):")
        body.lines += inner.lines
        self._end_rows(block, body, end)
        lines = [
            *(f"{name} = {text}" for text, name in self._constants.items()),
            "def kernel(buffers, start, stop):",
            *self._top.lines,
            f"    for {first} in range(start, stop, {ROWS}):",
            *block.lines,
        ]
        return self._source("\n".join(lines) + "\n", trips, work)

    def _begin_block(self, block: Block) -> tuple[Block, str]:
        """A loop in which nothing is known of any row; the row's number in its block."""
        known = [node for node in self._names if node.variables]
        for node in known:
            del self._names[node]
        self._folds = {fold: names for fold, names in self._folds.items() if not fold.variables}
        body = Block(3, block, self._rows)
        for loop in self._nest.loops[:-1]:
            self._blocks[loop] = body
        return body, self._fresh("i")

    def _begin_rows(self, block: Block, first: str) -> tuple[Block, str]:
        """The same of a loop over the rows that there are."""
        body, at = self._begin_block(block)
        self._trip = self._fresh("t")
        body.add(f"{at} = sub({self._trip}, {first})")
        self._open_outer(self._nest.loops[:-1], self._trip, body)
        self._first = first
        return body, at

    def _keep(self, nodes: Sequence[Node], body: Block, at: str) -> None:
        """Compute what later loops read."""
        for node in nodes:
            name = self._name(node)
            body.add(f"keep_{node.type}({self._rooms[node]}, {at}, {name})")

    def _recall(self, nodes: Sequence[Node], body: Block, at: str) -> None:
        """Read what an earlier loop has kept."""
        for node in nodes:
            name = self._names[node] = self._fresh("v")
            body.add(f"{name} = kept_{node.type}({self._rooms[node]}, {at})")

    def _end_rows(self, block: Block, body: Block, end: str) -> None:
        block.add(f"for {self._trip} in range({self._first}, {end}):")
        block.lines += body.lines
