"""A computation on scalars as lines of a kernel, for kernels written by hand."""

import dataclasses
from collections.abc import Sequence

from xla_server.codegen.trace.graph import Apply, Literal, Node
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import Tracer
from xla_server.ir.explicit_stack import Deep, result_of
from xla_server.ir.module import HloComputation


@dataclasses.dataclass(eq=False)
class Named(Node):
    """A variable of the kernel."""

    name: str
    type: str


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


class ScalarWriter:
    """Nodes as lines that define variables whose names start with `prefix`."""

    def __init__(self, prefix: str) -> None:
        self.constants: dict[str, str] = {}
        self.lines: list[str] = []
        self._prefix = prefix
        self._names: dict[Node, str] = {}

    def text_of(self, results: Sequence[Node]) -> ScalarText:
        """All lines so far and those that compute these results."""
        names = tuple(self.name(node) for node in results)
        constants = tuple(f"{name} = {text}" for text, name in self.constants.items())
        return ScalarText(constants, tuple(self.lines), names)

    def name(self, node: Node) -> str:
        """The variable that holds a node, computed where it was not yet."""
        return result_of(self._named(node))

    def _named(self, node: Node) -> Deep[str]:
        found = self._names.get(node)
        if found is None:
            found = self._names[node] = yield self._write(node)
        return found

    def _write(self, node: Node) -> Deep[str]:
        if isinstance(node, Named):
            return node.name
        if isinstance(node, Literal):
            known = f"{self._prefix}k{len(self.constants)}"
            return self.constants.setdefault(node.expression, known)
        assert isinstance(node, Apply), node
        names = []
        for operand in node.operands:
            name: str = yield self._named(operand)
            names.append(name)
        operands = ", ".join(names)
        name = f"{self._prefix}{len(self._names)}"
        self.lines.append(f"{name} = {node.function}({operands})")
        return name
