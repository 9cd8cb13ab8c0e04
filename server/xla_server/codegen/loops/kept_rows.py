"""Values that several loops over one row compute: made in the first, kept, and read by the others.

Softmax adds up exponentials and then divides each of them. The loops of both have variables of
their own, so what they compute are different nodes; they are known to be the same values by
their structure, with a loop's own variable taken for that of any other loop of its length.
"""

import dataclasses
from collections.abc import Sequence
from typing import TypeAlias

from xla_server.codegen.functions.elementwise import COST
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.trace.affine import Affine, Atom, Computed, Modulus, Quotient, Variable
from xla_server.codegen.trace.graph import (
    Accumulator,
    Apply,
    Fold,
    Folded,
    Literal,
    Load,
    Node,
    Position,
    Store,
    nodes_of,
)
from xla_server.ir.explicit_stack import Deep, result_of
from xla_server.target.loop_tuning import LoopNests


@dataclasses.dataclass(frozen=True, slots=True)
class KeptRow:
    """A row of values of one computed type, written by the loop of the fold `maker`."""

    number: int
    type: str
    size: int
    maker: Fold

    @property
    def byte_size(self) -> int:
        """Bytes of the row, a whole number of cache lines."""
        return -(-self.size * Type(self.type).byte_size // 64) * 64


@dataclasses.dataclass(frozen=True, slots=True)
class KeptRows:
    """The rows of a kernel, the nodes that are written to them and those that are read.

    `same` has nodes that are the value of another node of the same loop.
    """

    rows: tuple[KeptRow, ...]
    written: dict[Node, tuple[KeptRow, Variable]]
    read: dict[Node, tuple[KeptRow, Variable]]
    same: dict[Node, Node]


NOTHING_KEPT = KeptRows((), {}, {}, {})


@dataclasses.dataclass(frozen=True, slots=True)
class _Span:
    """A loop over a row: its variables, with what each of them computes there.

    Folds of one group have variables of their own in one loop. The loop over results has no fold.
    """

    roots: tuple[tuple[Variable, tuple[Node, ...]], ...]
    fold: Fold | None


def kept_rows(
    loops: Sequence[Variable],
    stores: Sequence[Store],
    groups: Sequence[tuple[Fold, ...]],
    tuned: LoopNests,
) -> KeptRows:
    """What is worth keeping in a kernel whose outer loops are all but the last of `loops`."""
    outer = frozenset(loops[:-1] if len(loops) > 1 else loops)
    spans = [
        _Span(tuple((fold.loops[0], fold.combined) for fold in group), group[0])
        for group in groups
        if all(len(fold.loops) == 1 and fold.variables <= outer for fold in group)
    ]
    if not spans:
        return NOTHING_KEPT
    # Outside of the trips' loop comes first.
    spans.sort(key=lambda span: bool(span.fold and span.fold.variables))
    if loops:
        roots = [node for store in stores for node in (store.value, *nodes_of(store.offset))]
        spans.append(_Span(((loops[-1], tuple(roots)),), None))
    return _Keeping(outer, {fold for group in groups for fold in group}, tuned).kept(spans)


_Made: TypeAlias = tuple[Node, Variable, Fold | None]
"""A node that is computed, its loop's variable, and the fold that names the loop."""


class _Keeping:
    """Finds what the loops have in common."""

    def __init__(self, outer: frozenset[Variable], folds: set[Fold], tuned: LoopNests) -> None:
        self._tuned = tuned
        self._outer = outer
        self._folds = folds
        self._numbers: dict[tuple[object, ...], int] = {}
        self._known: dict[tuple[Node, Variable], int] = {}
        self._rows: dict[int, KeptRow] = {}
        self._written: dict[Node, tuple[KeptRow, Variable]] = {}
        self._read: dict[Node, tuple[KeptRow, Variable]] = {}
        self._same: dict[Node, Node] = {}
        self._made: dict[int, _Made] = {}
        self._bytes = 0

    def kept(self, spans: Sequence[_Span]) -> KeptRows:
        """Go through the loops in order; each reads what an earlier one has made."""
        for span in spans:
            new: dict[int, _Made] = {}
            for loop, roots in span.roots:
                self._go_through(loop, roots, span.fold, new)
            for number, maker in new.items():
                self._made.setdefault(number, maker)
        return KeptRows(tuple(self._rows.values()), self._written, self._read, self._same)

    def _go_through(
        self, loop: Variable, roots: Sequence[Node], fold: Fold | None, new: dict[int, _Made]
    ) -> None:
        """Find what a loop need not compute, and add to `new` what it does."""
        seen: set[Node] = set()
        waiting = list(roots)
        while waiting:
            node = waiting.pop()
            if node in seen or loop not in node.variables or isinstance(node, Accumulator):
                continue
            seen.add(node)
            if isinstance(node, Apply) and node.variables <= self._outer | {loop}:
                number = result_of(self._number(node, loop))
                if number in self._made and self._keep(number, node, loop):
                    continue
                first = new.setdefault(number, (node, loop, fold))[0]
                if first is not node:
                    self._same[node] = first
                    continue
            # What another loop over rows computes is looked at in its turn.
            if not (isinstance(node, Folded) and node.fold in self._folds):
                waiting += node.inputs()

    def _keep(self, number: int, node: Node, loop: Variable) -> bool:
        """Let `node` be read from a row, if that pays and there is room; whether it is."""
        original, source, fold = self._made[number]
        if source.size != loop.size:
            return False
        row = self._rows.get(number)
        if row is None:
            assert fold is not None
            row = KeptRow(len(self._rows), node.type, loop.size, fold)
            room = self._tuned.max_row_buffer_bytes - self._bytes
            if _cost(node, loop) < self._tuned.spill_work or row.byte_size > room:
                return False
            self._bytes += row.byte_size
            self._rows[number] = row
            self._written[original] = (row, source)
        self._read[node] = (row, loop)
        return True

    def _number(self, node: Node, loop: Variable) -> Deep[int]:
        """A number that nodes of different loops share where they are the same value."""
        if loop not in node.variables and not isinstance(node, Literal):
            return self._numbered("same", node)
        known = self._known.get((node, loop))
        if known is None:
            form: tuple[object, ...] = yield self._form(node, loop)
            known = self._known[node, loop] = self._numbered(*form)
        return known

    def _numbered(self, *form: object) -> int:
        return self._numbers.setdefault(form, len(self._numbers))

    def _form(self, node: Node, loop: Variable) -> Deep[tuple[object, ...]]:
        if isinstance(node, Literal):
            return "literal", node.constant
        if isinstance(node, Position):
            place: tuple[object, ...] = yield self._place(node.index, loop)
            return "position", place
        if isinstance(node, Load):
            guard: int | None = None
            if node.guard is not None:
                guard = yield self._number(node.guard, loop)
            offset: tuple[object, ...] = yield self._place(node.offset, loop)
            return "load", node.argument, node.kernel_type, offset, guard
        if isinstance(node, Apply):
            operands = []
            for operand in node.operands:
                number: int = yield self._number(operand, loop)
                operands.append(number)
            return node.function, node.type, tuple(operands)
        return "only", node

    def _place(self, index: Affine, loop: Variable) -> Deep[tuple[object, ...]]:
        terms = []
        for atom, factor in index.terms:
            form: object = yield self._atom(atom, loop)
            terms.append((form, factor))
        return index.constant, frozenset(terms)

    def _atom(self, atom: Atom, loop: Variable) -> Deep[object]:
        if isinstance(atom, Variable):
            return ("row", loop.size) if atom is loop else atom
        if isinstance(atom, Computed):
            assert isinstance(atom.node, Node)
            number: int = yield self._number(atom.node, loop)
            return number
        kind = Quotient if isinstance(atom, Quotient) else Modulus
        place: tuple[object, ...] = yield self._place(atom.operand, loop)
        return kind, place, atom.divisor


def cost_of(node: Apply) -> int:
    """How many cheap operations take as long."""
    return COST.get(node.function.split("_", maxsplit=1)[0], 1)


def _cost(node: Node, loop: Variable) -> int:
    """What it takes to compute a node once, without what is the same for the whole row."""
    total = 0
    seen: set[Node] = set()
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if part not in seen and loop in part.variables:
            seen.add(part)
            if isinstance(part, Apply):
                total += cost_of(part)
            waiting += part.inputs()
    return total
