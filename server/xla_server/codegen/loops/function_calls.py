"""Elementary functions that a loop nest calls; it inlines the others."""

import math
from collections.abc import Sequence

from xla_server.codegen.functions.called_functions import called
from xla_server.codegen.trace.graph import Apply, Node, ReductionResult
from xla_server.ir.affine import Variable

SELDOM = 16
"""How often others are computed for each time that a seldom value is; what is computed once is."""

SHORT_ROWS = range(6, 33)
"""Elements of rows that functions are called for. Shorter and longer rows were measured to take
longer than with inlined functions."""


class FunctionCalls:
    """Calls for what is computed seldom, or for elements of short rows.

    A short row is a vector or two: between them there is as much else to do. `outer` are the loops
    that the others are inside of.
    """

    def __init__(self, nodes: Sequence[Node], outer: Sequence[Variable]) -> None:
        self._outer = outer
        self._most_turns = max([SELDOM, *map(self._turns, nodes)])
        loops = [
            loop
            for node in nodes
            if isinstance(node, ReductionResult) and _size(node.reduction.loops) in SHORT_ROWS
            for loop in node.reduction.loops
        ]
        self._in_short_rows = any(
            isinstance(node, Apply)
            and called(node.function) != node.function
            and not node.variables.isdisjoint(loops)
            for node in nodes
        )

    def name_of(self, node: Apply) -> str:
        """Return the function that computes a node: the called or the inlined form."""
        is_seldom = self._turns(node) * SELDOM <= self._most_turns
        return called(node.function) if is_seldom or self._in_short_rows else node.function

    def _turns(self, node: Node) -> int:
        """Return how often all work items of a kernel together compute a node."""
        return _size({*self._outer, *node.variables}) if node.variables else 1


def _size(loops: Sequence[Variable] | set[Variable]) -> int:
    return math.prod(loop.size for loop in loops)
