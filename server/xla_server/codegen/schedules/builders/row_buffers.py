"""Row buffers: values of a row that are computed once, spilled to the stack, and reloaded.

Several loops over one row share them: softmax adds up exponentials and then divides each of them.
Each loop has its own variable, so equal values are different nodes. They are recognised by their
structure, in which the variables of all loops of one length are taken as equal.
"""

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

from xla_server.codegen.kernel_ir.analysis.counts import cost_of
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.trace import graph
from xla_server.ir.analysis.affine import Affine, Atom, Computed, Modulus, Quotient, Variable
from xla_server.ir.explicit_stack import Deep, result_of
from xla_server.target.loop_tuning import LoopNests


@dataclasses.dataclass(frozen=True, slots=True)
class RowBuffer:
    """A row buffer of one computed type, written by the loop of the reduction `maker`."""

    number: int
    type: str
    size: int
    maker: graph.Reduction

    @property
    def byte_size(self) -> int:
        """Bytes of the row, a whole number of cache lines."""
        return -(-self.size * Type(self.type).byte_size // 64) * 64


@dataclasses.dataclass(frozen=True, slots=True)
class RowBuffers:
    """The row buffers of a kernel, the nodes written to them and the nodes read from them.

    `same` maps a node to another one of the same loop that has the same value.
    """

    rows: Collection[RowBuffer]
    written: dict[graph.Node, tuple[RowBuffer, Variable]]
    read: dict[graph.Node, tuple[RowBuffer, Variable]]
    same: dict[graph.Node, graph.Node]

    def has(self, node: graph.Node) -> bool:
        """Return whether a row buffer holds the values of a node."""
        return node in self.written or node in self.read or node in self.same


NO_ROW_BUFFERS = RowBuffers((), {}, {}, {})


@dataclasses.dataclass(frozen=True, slots=True)
class _Span:
    """A loop over a row: its variables, and the nodes computed with each of them.

    Reductions of a group share one loop, in which each has its own variable. The loop over results
    has no reduction.
    """

    roots: tuple[tuple[Variable, tuple[graph.Node, ...]], ...]
    reduction: graph.Reduction | None


def row_buffers(
    loops: Sequence[Variable],
    stores: Sequence[graph.Store],
    groups: Sequence[tuple[graph.Reduction, ...]],
    tuned: LoopNests,
) -> RowBuffers:
    """Return the row buffers that save time in a kernel with the outer loops `loops[:-1]`."""
    outer = frozenset(loops[:-1] if len(loops) > 1 else loops)
    spans = [
        _Span(tuple((reduction.loops[0], reduction.combined) for reduction in group), group[0])
        for group in groups
        if all(len(reduction.loops) == 1 and reduction.variables <= outer for reduction in group)
    ]
    if not spans:
        return NO_ROW_BUFFERS
    # Reductions before the loop over work items are executed first.
    spans.sort(key=lambda span: bool(span.reduction and span.reduction.variables))
    if loops:
        roots = graph.roots_of(stores)
        spans.append(_Span(((loops[-1], tuple(roots)),), None))
    return _RowBufferFinder(outer, {each for group in groups for each in group}, tuned).found(spans)


_Made: TypeAlias = tuple[graph.Node, Variable, graph.Reduction | None]
"""A node that is computed, the variable of its loop, and the reduction that identifies the loop."""


class _RowBufferFinder:
    """Finds the values that several loops over a row compute."""

    def __init__(
        self, outer: frozenset[Variable], reductions: set[graph.Reduction], tuned: LoopNests
    ) -> None:
        self._tuned = tuned
        self._outer = outer
        self._reductions = reductions
        self._numbers: dict[tuple[object, ...], int] = {}
        self._known: dict[tuple[graph.Node, Variable], int] = {}
        self._rows: dict[int, RowBuffer] = {}
        self._found = RowBuffers(self._rows.values(), {}, {}, {})
        self._made: dict[int, _Made] = {}
        self._bytes = 0

    def found(self, spans: Sequence[_Span]) -> RowBuffers:
        """Visit the loops in order of execution; each may read values of an earlier one."""
        for span in spans:
            new: dict[int, _Made] = {}
            for loop, roots in span.roots:
                self._visit_loop(loop, roots, span.reduction, new)
            self._made = new | self._made
        return self._found

    def _visit_loop(
        self,
        loop: Variable,
        roots: Sequence[graph.Node],
        reduction: graph.Reduction | None,
        new: dict[int, _Made],
    ) -> None:
        """Find the values that a loop can read from row buffers; add those it computes to `new`."""
        seen: set[graph.Node] = set()
        waiting = list(roots)
        while waiting:
            node = waiting.pop()
            if node in seen or loop not in node.variables or isinstance(node, graph.Accumulator):
                continue
            seen.add(node)
            if isinstance(node, graph.Apply) and node.variables <= self._outer | {loop}:
                number = result_of(self._number(node, loop))
                if number in self._made and self._keep(number, node, loop):
                    continue
                first = new.setdefault(number, (node, loop, reduction))[0]
                if first is not node:
                    self._found.same[node] = first
                    continue
            # Operands of a reduction over the row belong to that reduction's loop.
            if not (isinstance(node, graph.ReductionResult) and node.reduction in self._reductions):
                waiting += node.inputs()

    def _keep(self, number: int, node: graph.Node, loop: Variable) -> bool:
        """Read `node` from a row buffer if that saves time and fits; return whether it is read."""
        original, source, reduction = self._made[number]
        if source.size != loop.size:
            return False
        row = self._rows.get(number)
        if row is None:
            assert reduction is not None
            row = RowBuffer(len(self._rows), node.type, loop.size, reduction)
            available = self._tuned.max_row_buffer_bytes - self._bytes
            if _cost(node, loop) < self._tuned.spill_work or row.byte_size > available:
                return False
            self._bytes += row.byte_size
            self._rows[number] = row
            self._found.written[original] = (row, source)
        self._found.read[node] = (row, loop)
        return True

    def _number(self, node: graph.Node, loop: Variable) -> Deep[int]:
        """Return a value number, equal for nodes of different loops that have the same value."""
        if loop not in node.variables and not isinstance(node, graph.Immediate):
            return self._numbered("same", node)
        known = self._known.get((node, loop))
        if known is None:
            form: tuple[object, ...] = yield self._form(node, loop)
            known = self._known[node, loop] = self._numbered(*form)
        return known

    def _numbered(self, *form: object) -> int:
        return self._numbers.setdefault(form, len(self._numbers))

    def _form(self, node: graph.Node, loop: Variable) -> Deep[tuple[object, ...]]:
        if isinstance(node, graph.Immediate):
            return "literal", node.constant
        if isinstance(node, graph.Position):
            index_form: tuple[object, ...] = yield self._index_form(node.index, loop)
            return "position", index_form
        if isinstance(node, graph.Load):
            guard: int | None = None
            if node.guard is not None:
                guard = yield self._number(node.guard, loop)
            offset: tuple[object, ...] = yield self._index_form(node.offset, loop)
            return "load", node.argument, node.kernel_type, offset, guard
        if isinstance(node, graph.Apply):
            operands = []
            for operand in node.operands:
                number: int = yield self._number(operand, loop)
                operands.append(number)
            return node.function, node.type, tuple(operands)
        return "only", node

    def _index_form(self, index: Affine, loop: Variable) -> Deep[tuple[object, ...]]:
        terms = []
        for atom, factor in index.terms:
            form: object = yield self._atom(atom, loop)
            terms.append((form, factor))
        return index.constant, frozenset(terms)

    def _atom(self, atom: Atom, loop: Variable) -> Deep[object]:
        if isinstance(atom, Variable):
            return ("row", loop.size) if atom is loop else atom
        if isinstance(atom, Computed):
            assert isinstance(atom.node, graph.Node)
            number: int = yield self._number(atom.node, loop)
            return number
        kind = Quotient if isinstance(atom, Quotient) else Modulus
        index_form: tuple[object, ...] = yield self._index_form(atom.operand, loop)
        return kind, index_form, atom.divisor


def _cost(node: graph.Node, loop: Variable) -> int:
    """Return the cost of one evaluation of a node, without operands constant along the row."""

    def varying(nodes: Iterable[graph.Node]) -> list[graph.Node]:
        return [each for each in nodes if loop in each.variables]

    parts = graph.reached(varying([node]), lambda part: varying(part.inputs()))
    return sum(cost_of(part.function) for part in parts if isinstance(part, graph.Apply))
