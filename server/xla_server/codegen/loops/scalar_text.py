"""A computation on scalars as lines of a kernel, for kernels written by hand."""

import dataclasses
from collections.abc import Sequence

from xla_server.codegen.kernel_ir.builder import Names
from xla_server.codegen.kernel_ir.expressions import Expression, Value
from xla_server.codegen.kernel_ir.numba_text import NumbaText
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.loops.graph_builder import GraphBuilder
from xla_server.codegen.loops.scalar_builder import Named
from xla_server.codegen.trace.graph import Fold, Node
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import Tracer
from xla_server.ir.explicit_stack import Deep
from xla_server.ir.module import HloComputation


@dataclasses.dataclass(frozen=True, slots=True)
class ScalarText:
    """Lines that compute results from variables; constants belong before the kernel."""

    constants: tuple[str, ...]
    lines: tuple[str, ...]
    results: tuple[str, ...]

    def indented(self, depth: int) -> str:
        """The lines at a depth of indentation, each with its line end."""
        return "".join("    " * depth + line + "\n" for line in self.lines)


def scalar_text(
    computation: HloComputation, arguments: Sequence[tuple[str, str]], prefix: str = "s"
) -> ScalarText:
    """The text of `computation` applied to variables.

    `arguments` are (name, computed type) of each parameter's value. Names that the lines define
    start with `prefix`; two texts in one kernel need different ones.
    """
    tracer = Tracer(RULES, {})
    results = tracer.call(computation, [Named(name, kind) for name, kind in arguments])
    return ScalarWriter(prefix).text_of(results)


class ScalarWriter(GraphBuilder):
    """Evaluates nodes in variables whose names start with `prefix`."""

    def __init__(self, prefix: str) -> None:
        super().__init__(())
        self._prefix = prefix
        self._names = Names(prefix)

    def text_of(self, results: Sequence[Node]) -> ScalarText:
        """Return all lines so far and those that compute these results."""
        found = [self._value(node) for node in results]
        text = NumbaText(f"{self._prefix}k")
        lines = text.lines(self._top.statements) if self._top.statements else []
        names = tuple(map(text.expression, found))
        return ScalarText(tuple(text.constants), tuple(lines), names)

    def _evaluate(self, node: Node) -> Deep[Expression]:
        if isinstance(node, Named):
            return Value(node.name, Type(node.type))
        value: Expression = yield super()._evaluate(node)
        return value

    def _reduced(self, fold: Fold) -> Deep[Sequence[Expression]]:
        raise AssertionError("a computation on scalars has no reductions")
