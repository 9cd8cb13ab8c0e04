"""The text of a scalar graph: one line for each node, operands first."""

from collections.abc import Sequence

from xla_server.codegen.instructions.constants import CONSTANTS
from xla_server.codegen.trace.graph import (
    Apply,
    Immediate,
    Load,
    Node,
    Reduction,
    ReductionResult,
    Store,
)
from xla_server.ir.analysis.affine import Affine, Variable

LETTERS = "ijklmn"
"""Names of loop variables, in the order that they are met."""


def graph_text(loops: Sequence[Variable], stores: Sequence[Store]) -> str:
    """Return the nodes that an element of each result is computed from."""
    return "\n".join(_Printer(loops, stores).lines) + "\n"


class _Printer:
    """Gives numbers to nodes and letters to loop variables."""

    def __init__(self, loops: Sequence[Variable], stores: Sequence[Store]) -> None:
        self._letters = dict(zip(loops, LETTERS, strict=False))
        self._names: dict[Node, str] = {}
        self.lines = [f"element {self._ranges(loops)}:"]
        for store in stores:
            value = self._node(store.value)
            self.lines.append(f"  buffer{store.argument}[{self._index(store.offset)}] = {value}")

    def _node(self, node: Node) -> str:
        """Return the name of a node, whose line is there."""
        if isinstance(node, Immediate):
            constant = node.constant
            return f"{constant.type} {CONSTANTS[constant.type](*constant.parts)}"
        if node not in self._names:
            text = self._text(node)
            self._names[node] = f"n{len(self._names)}"
            self.lines.append(f"  {self._names[node]} = {text}")
        return self._names[node]

    def _text(self, node: Node) -> str:
        match node:
            case Load(argument=argument, offset=offset):
                return f"buffer{argument}[{self._index(offset)}]"
            case Apply(function=function, operands=operands):
                return f"{function}({', '.join(map(self._node, operands))})"
            case ReductionResult(
                reduction=Reduction(
                    element=Node() as element, combined=(Apply() as last,)
                ) as reduction
            ):
                free = LETTERS[len(self._letters) :]
                self._letters |= dict(zip(reduction.loops, free, strict=False))
                (start,) = map(self._node, reduction.initial)
                combined = self._node(element)
                over = self._ranges(reduction.loops)
                return f"{last.function} of {combined} over {over}, from {start}"
        raise ValueError(f"a node of the page must be one of softmax, got {node}")

    def _ranges(self, loops: Sequence[Variable]) -> str:
        return ", ".join(f"{self._letters[loop]} < {loop.size}" for loop in loops)

    def _index(self, index: Affine) -> str:
        terms = [
            self._letters[atom] if factor == 1 else f"{factor} {self._letters[atom]}"
            for atom, factor in index.terms
            if isinstance(atom, Variable)
        ]
        return " + ".join(terms)
