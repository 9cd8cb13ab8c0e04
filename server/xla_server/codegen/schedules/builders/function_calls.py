"""Choice between a call and inlined code for each elementary function of a loop nest."""

import math
from collections.abc import Sequence

from xla_server.codegen.functions.called_functions import called
from xla_server.codegen.trace.graph import Apply, Node, ReductionResult
from xla_server.ir.analysis.affine import Variable
from xla_server.target.loop_tuning import LoopNests


class FunctionCalls:
    """Calls functions that are evaluated rarely, and all of a nest with functions in short rows.

    A short row has one or two vectors, so the call overhead is small beside the loop's own.
    `outer` are the outer loops of the nest.
    """

    def __init__(self, nodes: Sequence[Node], outer: Sequence[Variable], tuned: LoopNests) -> None:
        self._outer, self._rare_factor = outer, tuned.seldom_factor
        self._max_evaluations = max([self._rare_factor, *map(self._evaluations, nodes)])
        fewest, most = tuned.called_rows
        loops = [
            loop
            for node in nodes
            if isinstance(node, ReductionResult) and fewest <= _size(node.reduction.loops) <= most
            for loop in node.reduction.loops
        ]
        self._in_short_rows = any(
            isinstance(node, Apply)
            and called(node.function) != node.function
            and not node.variables.isdisjoint(loops)
            for node in nodes
        )

    def name_of(self, node: Apply) -> str:
        """Return the name of the function for a node: the out-of-line or the inlined form."""
        is_rare = self._evaluations(node) * self._rare_factor <= self._max_evaluations
        return called(node.function) if is_rare or self._in_short_rows else node.function

    def _evaluations(self, node: Node) -> int:
        """Return the number of evaluations of a node in all work items together."""
        return _size({*self._outer, *node.variables}) if node.variables else 1


def _size(loops: Sequence[Variable] | set[Variable]) -> int:
    return math.prod(loop.size for loop in loops)
