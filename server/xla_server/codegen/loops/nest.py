"""A loop nest over a scalar graph, and its source text.

The outermost loop is the kernel's range: it runs over the product of all dimensions but the
innermost. Each node is written into the innermost loop among those it depends on, so what is the
same for a whole row is computed once for it.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence, Set

from xla_server.codegen.loops.block import Block, calls_of
from xla_server.codegen.loops.evaluations import EvaluationCounter, Evaluations
from xla_server.codegen.loops.fold_groups import fold_groups, is_free
from xla_server.codegen.loops.function_calls import FunctionCalls
from xla_server.codegen.loops.kept_rows import NOTHING_KEPT, kept_rows
from xla_server.codegen.loops.stopping import SPAN, is_long, span_of, stop_lines
from xla_server.codegen.loops.stored_nodes import all_nodes, prologue_of
from xla_server.codegen.loops.sum_levels import Step, is_even, steps_of, turn_of
from xla_server.codegen.loops.vector_folds import VectorFold, vector_fold
from xla_server.codegen.loops.work_items import inner_loops
from xla_server.codegen.trace.affine import Affine, Atom, Computed, Quotient, Variable
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
    variables_of,
)
from xla_server.ir.explicit_stack import Deep, result_of

_FREE_RUN = 512
"""How many elements are combined in any order before partial results are."""

_LONG = 1 << 15
"""Elements of a sum that comes from memory rather than the cache, where shorter runs, which are
more exact, take no time of their own."""

_LONG_RUN = 256
"""How many elements of such a sum are combined in any order before partial results are."""

_FREE_PARTS = 64
"""How many partial results are combined in sequence before their results are."""

_WIDE_NEUTRAL = Literal("f64(0x8000000000000000)", "f64")
"""The initial value of sums of partial results: -0."""


@dataclasses.dataclass(frozen=True, slots=True)
class Nest:
    """Loops of several trips, outermost first, and the stores inside.

    Where trips are long, argument number `cancellation` of the kernel has the word that cancels.
    """

    loops: tuple[Variable, ...]
    stores: tuple[Store, ...]
    cancellation: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """The text of a kernel over `trips` work items of about `work` operations each.

    Each call does about `prologue` operations before its first work item. `evaluations` says how
    often a launch, cut into chunks by `chunk_of`, evaluates each node.
    """

    text: str
    trips: int
    work: int
    prologue: int = 0
    evaluations: Evaluations = dataclasses.field(default_factory=dict)


def source_of(nest: Nest) -> Source:
    """The text of the kernel that does the nest."""
    return Printer(nest).printed()


class Printer:
    """Writes one kernel. Subclasses write other loops around the same graph."""

    def __init__(self, nest: Nest, written: Set[int] = frozenset()) -> None:
        """`written` are arguments that the kernel writes, besides those it stores to."""
        self._nest = nest
        self._names: dict[Node, str] = {}
        self._stored: dict[Node, str] = {}
        self._folds: dict[Fold, list[str]] = {}
        self._blocks: dict[Variable, Block] = {}
        self._loop_names: dict[Variable, str] = {}
        self._constants: dict[str, str] = {}
        self._groups: dict[Fold, tuple[Fold, ...]] = {}
        self._kept = NOTHING_KEPT
        self._looks = False
        self._calls: FunctionCalls | None = None
        self._written = {*written, *(store.argument for store in nest.stores)}
        self._count = 0
        self._top = Block(1, None)
        self._invariants: Block | None = None
        """The block of what depends on no loop, if that is not the top."""
        self._evaluated = EvaluationCounter()
        self._prologue = prologue_of(nest.stores)

    def printed(self) -> Source:
        """The text with one loop over all dimensions but the last, and one over that."""
        loops = self._nest.loops
        inner = inner_loops(loops, self._nest.stores)
        outer = loops[: len(loops) - len(inner)]
        self._calls = FunctionCalls(all_nodes(self._nest.stores), outer)
        work = self._work(outer)
        self._name_buffers()
        self._look_if(work)
        self._name_rows()
        trips = math.prod(loop.size for loop in outer)
        body = self._begin_items(trips, work)
        trip = self._fresh("t")
        self._open_outer(outer, trip, body)
        headers = self._open_loops(inner, body)
        self._store(self._nest.stores, body)
        for block, _ in headers[-1:]:
            block.lines = block.lines or ["    " * block.depth + "pass"]
        self._close(headers)
        return self._source(self._text(trip, trips, body), trips, work)

    def _begin_items(self, trips: int, work: int) -> Block:
        """Return the body of the loop over work items, of which each call does a chunk."""
        calls = calls_of(trips, work, self._prologue_work)
        self._top.iterations = calls
        return Block(2, self._top, trips / max(1, calls))

    def _source(self, text: str, trips: int, work: int) -> Source:
        return Source(text, trips, work, self._prologue_work, self._evaluated.total())

    @property
    def _prologue_work(self) -> int:
        """Operations that a call does before its first work item."""
        return sum(math.prod(loop.size for loop in node.variables) for node in self._prologue)

    def _look_if(self, work: int) -> None:
        """Let long loops look whether to stop, where a trip does so many operations."""
        if self._nest.cancellation is not None and is_long(work + self._prologue_work):
            self._looks = True
            self._top.add(f"cancelled = peek_i64(buffers, {self._nest.cancellation})")

    def _open_loops(self, loops: Sequence[Variable], block: Block) -> list[tuple[Block, str]]:
        """Begin loops inside each other in a block: their own, with the lines before them."""
        headers: list[tuple[Block, str]] = []
        inside = self._elements_inside(loops) if self._looks and loops else 1
        looking, turns = span_of([loop.size for loop in loops], inside)
        for number, loop in enumerate(loops):
            ends = str(loop.size)
            if self._looks and number == looking and turns < loop.size:
                at, end = self._fresh("i"), self._fresh("i")
                block = Block(block.depth + 1, block, loop.size / turns)
                headers.append((block, f"for {at} in range(0, {loop.size}, {turns}):"))
                block.lines += stop_lines(block.depth)
                block.add(f"{end} = minimum(add({at}, {turns}), {loop.size})")
                ends = f"{at}, {end}"
            inner = turns if ends != str(loop.size) else loop.size
            block = Block(block.depth + 1, block, inner)
            self._open(loop, block)
            headers.append((block, f"for {self._loop_names[loop]} in range({ends}):"))
        return headers

    def _elements_inside(self, loops: Sequence[Variable]) -> int:
        """How often one turn of the last of these loops does what stands in other loops inside."""
        open_loops = {*self._blocks, *loops}
        return max(
            (
                math.prod(loop.size for loop in node.variables if loop not in open_loops)
                for node in all_nodes(self._nest.stores)
                if loops[-1] in node.variables
            ),
            default=1,
        )

    def _name_buffers(self) -> None:
        """Write where buffers are."""
        for number in sorted(self._arguments()):
            self._top.add(f"buffer{number} = peek_i64(buffers, {number})")

    def _name_rows(self) -> None:
        """Write where the rows are that loops share."""
        groups = fold_groups(self._nest.stores)
        self._groups = {fold: group for group in groups for fold in group}
        self._kept = kept_rows(self._nest.loops, self._nest.stores, groups)
        for row in self._kept.rows:
            self._top.add(f"row{row.number} = room_for({row.byte_size})")

    def _text(self, trip: str, trips: int, body: Block) -> str:
        """The whole text. A single trip needs no loop, which would cost a tenth of compiling it."""
        constants = [f"{name} = {text}" for text, name in self._constants.items()]
        lines = [
            *constants,
            "def kernel(buffers, start, stop):",
            *self._top.lines,
            f"    for {trip} in range(start, stop):" if trips > 1 else "    if start < stop:",
            *body.lines,
        ]
        return "\n".join(lines) + "\n"

    def _arguments(self) -> set[int]:
        nodes = all_nodes(self._nest.stores)
        read = {node.argument for node in nodes if isinstance(node, Load)}
        return read | {store.argument for store in self._nest.stores}

    def _work(self, outer: Sequence[Variable]) -> int:
        """Operations of a trip: each node as often as the loops inside of it ask for it."""
        nodes = [
            node.variables
            for node in all_nodes(self._nest.stores)
            if node not in self._prologue or isinstance(node, Literal)
        ]
        stores = [variables_of(store.offset) for store in self._nest.stores]
        inner = [[v.size for v in variables if v not in outer] for variables in (*nodes, *stores)]
        return sum(map(math.prod, inner))

    def _open_outer(self, loops: Sequence[Variable], trip: str, body: Block) -> None:
        """Name the outer variables, which one loop runs over."""
        if len(loops) == 1:
            self._loop_names[loops[0]] = trip
            self._blocks[loops[0]] = body
            return
        rest = trip
        for number, loop in reversed(list(enumerate(loops))):
            name = self._fresh("i")
            self._loop_names[loop] = name
            self._blocks[loop] = body
            if number == 0:
                body.add(f"{name} = {rest}")
            else:
                body.add(f"{name} = whole_mod({rest}, {loop.size})")
                left = self._fresh("t")
                body.add(f"{left} = whole_div({rest}, {loop.size})")
                rest = left

    def _open(self, loop: Variable, block: Block) -> None:
        self._loop_names[loop] = self._fresh("i")
        self._blocks[loop] = block

    def _fresh(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"

    def _block_of(self, variables: frozenset[Variable]) -> Block:
        """The innermost of the loops over these variables; outside of all, the trip's."""
        block = self._invariants or self._top
        for loop in variables:
            candidate = self._blocks[loop]
            if candidate.depth > block.depth:
                block = candidate
        return block

    def _store(self, stores: Sequence[Store], body: Block) -> None:
        # A result may lie where an operand was: all is read before anything is written.
        values = [self._narrow(store) for store in stores]
        for store, value in zip(stores, values, strict=True):
            block = self._block_of(variables_of(store.offset) | store.value.variables)
            if block is self._top:
                block = body
            offset = self._index(store.offset, block)
            kind = store.kernel_type.storage
            block.add(f"store_{kind}(buffer{store.argument}, {offset}, {value})")

    def _narrow(self, store: Store) -> str:
        """What is stored: the bits as they were read where nothing changed them."""
        kernel_type, node = store.kernel_type, store.value
        if isinstance(node, Apply) and f"{node.function}({{}})" == kernel_type.widen:
            return self._name(node.operands[0])
        name = self._name(node)
        if isinstance(node, Load) and node.kernel_type == kernel_type:
            return self._stored[node]
        return kernel_type.narrow.format(name)

    def _name(self, node: Node) -> str:
        """The name of a node's value, written down where it belongs if it is not yet."""
        return result_of(self._value(node))

    def _value(self, node: Node) -> Deep[str]:
        """Return the name of a node's value, as a deep function."""
        node = self._kept.same.get(node, node)
        name = self._names.get(node)
        if name is None:
            name = self._names[node] = yield self._write(node)
        return name

    def _values(self, nodes: Iterable[Node]) -> Deep[list[str]]:
        names = []
        for node in nodes:
            name: str = yield self._value(node)
            names.append(name)
        return names

    def _write(self, node: Node) -> Deep[str]:
        if isinstance(node, Literal):
            constant = self._constants.get(node.expression)
            if constant is None:
                constant = self._constants[node.expression] = f"k{len(self._constants)}"
            return constant
        if isinstance(node, Accumulator):
            raise AssertionError("an accumulator is named by its fold")
        if isinstance(node, Folded):
            results: list[str] = yield self._fold(node.fold)
            return results[node.number]
        block = self._block_of(node.variables)
        if isinstance(node, Position):
            position: str = yield self._index_text(node.index, block)
            return position
        if node not in self._kept.read:
            self._evaluated.add(node, block)
        name = self._fresh("v")
        if node in self._kept.read:
            row, loop = self._kept.read[node]
            # Lines of its loop come before those of this one, which is not written yet.
            yield self._fold(row.maker)
            block.add(f"{name} = kept_{row.type}(row{row.number}, {self._loop_names[loop]})")
        elif isinstance(node, Load):
            offset: str = yield self._index_text(node.offset, block)
            if node.guard is not None:
                guard: str = yield self._value(node.guard)
                offset = f"select({guard}, {offset}, 0)"
            # What the kernel has written itself may not be moved before the writing.
            load = "reload" if node.argument in self._written else "load"
            loaded = f"{load}_{node.kernel_type.storage}(buffer{node.argument}, {offset})"
            stored = self._stored[node] = name
            if node.kernel_type.widen != "{}":
                stored = self._stored[node] = self._fresh("v")
                block.add(f"{stored} = {loaded}")
                loaded = node.kernel_type.widen.format(stored)
            block.add(f"{name} = {loaded}")
        elif isinstance(node, Apply):
            operands: list[str] = yield self._values(node.operands)
            block.add(f"{name} = {self._function_of(node)}({', '.join(operands)})")
            if node in self._kept.written:
                row, loop = self._kept.written[node]
                place = self._loop_names[loop]
                block.add(f"keep_{row.type}(row{row.number}, {place}, {name})")
        else:
            raise AssertionError(f"no text for {type(node).__name__}")
        return name

    def _function_of(self, node: Apply) -> str:
        """What computes a node."""
        return self._calls.name_of(node) if self._calls else node.function

    def _fold(self, fold: Fold) -> Deep[list[str]]:
        if fold not in self._folds:
            yield self._write_fold(fold)
        return self._folds[fold]

    def _write_fold(self, fold: Fold) -> Deep[None]:
        # What a nested fold or the accumulators need comes first, outside of the loop.
        block = self._block_of(fold.variables)
        if is_free(fold):
            yield self._write_free_folds(self._groups.get(fold, (fold,)), block)
            return
        initial: list[str] = yield self._values(fold.initial)
        names = [self._fresh("a") for _ in fold.accumulators]
        for name, start in zip(names, initial, strict=True):
            block.add(f"{name} = {start}")
        headers = self._open_loops(fold.loops, block)
        inner = headers[-1][0] if headers else block
        self._names.update(zip(fold.accumulators, names, strict=True))
        combined: list[str] = yield self._values(fold.combined)
        self._evaluated.add(fold, inner)
        # All combined values are made before the first accumulator changes.
        for name, new in zip(names, combined, strict=True):
            inner.add(f"{name} = {new}")
        self._close(headers)
        self._folds[fold] = names

    def _close(self, headers: list[tuple[Block, str]]) -> None:
        for inner, header in reversed(headers):
            outside = inner.inside
            assert outside is not None
            outside.add(header)
            outside.lines += inner.lines

    def _write_free_folds(self, group: Sequence[Fold], block: Block) -> Deep[None]:
        """Runs in any order, whose results are combined in a fixed tree."""
        initial: list[str] = yield self._values(fold.initial[0] for fold in group)
        forms = [_form(fold) for fold in group]
        sizes = [loop.size for loop in group[0].loops]
        # What rounds nothing is combined in one run, unless it has to look whether to stop.
        is_cut = self._looks or any(form.rounds for form in forms)
        count = math.prod(sizes)
        most = _LONG_RUN if count >= _LONG else _FREE_RUN
        steps = steps_of(sizes, most if is_cut else count, _FREE_PARTS)
        headers: list[tuple[Block, str]] = []
        # Every level of sums but the innermost adds up the results of the level inside it.
        levels = sum(step.begins for step in steps)
        sums = [(block, self._neutral(forms, block, joins=levels > 0))]
        bounds: dict[int, tuple[str, str]] = {}
        inner = block
        for number, step in enumerate(steps):
            # Runs that are all equally long have a loop that says so: nothing is written for rests.
            even = is_even(steps, step)
            inner, header = self._open_step(group, step, bounds, inner, is_even=even)
            headers.append((inner, header))
            if step.begins:
                if self._looks and turn_of(steps, number) >= SPAN:
                    inner.lines += stop_lines(inner.depth)
                joins = len(sums) < levels
                sums.append((inner, self._neutral(forms, inner, joins=joins)))
        self._evaluated.add_all(group, inner)
        for fold, form, run in zip(group, forms, sums[-1][1], strict=True):
            assert fold.element is not None
            element: str = yield self._value(fold.element)
            element = form.enter.format(element)
            inner.add(f"{run} = {form.run}({run}, {element})")
        for step in reversed(steps):
            if step.begins:
                where, names = sums.pop()
                is_run = len(sums) == levels
                for form, target, part in zip(forms, sums[-1][1], names, strict=True):
                    joined = f"to_f64({part})" if form.is_wide and is_run else part
                    where.add(f"{target} = {form.join}({target}, {joined})")
            self._close([headers.pop()])
        for fold, form, start, whole in zip(group, forms, initial, sums[0][1], strict=True):
            result = self._fresh("a")
            joined = f"{form.join}({start}, {form.leave.format(whole)})"
            if form.is_wide and levels:
                joined = f"to_f32({form.join}(to_f64({start}), {whole}))"
            block.add(f"{result} = {joined}")
            self._folds[fold] = [result]

    def _open_step(
        self,
        group: Sequence[Fold],
        step: Step,
        bounds: dict[int, tuple[str, str]],
        outside: Block,
        *,
        is_even: bool,
    ) -> tuple[Block, str]:
        """Begin a loop of sums: its block, and the line before that.

        `bounds` has where the turns of each loop of the folds begin and end here.
        """
        block = Block(outside.depth + 1, outside, step.length / step.span)
        low, high = bounds.get(step.loop, ("0", str(step.length)))
        at = self._fresh("i")
        if step.span > 1:
            end = self._fresh("i")
            following = f"add({at}, {step.span})"
            block.add(f"{end} = " + (following if is_even else f"minimum({following}, {high})"))
            bounds[step.loop] = at, end
            return block, f"for {at} in range({low}, {high}, {step.span}):"
        for fold in group:
            self._loop_names[fold.loops[step.loop]] = at
            self._blocks[fold.loops[step.loop]] = block
        if is_even and low != "0":
            turn = self._fresh("i")
            block.add(f"{at} = add({low}, {turn})")
            return block, f"for {turn} in range({step.length}):"
        ends = high if low == "0" else f"{low}, {high}"
        return block, f"for {at} in range({ends}):"

    def _neutral(
        self, forms: Sequence[VectorFold], block: Block, *, joins: bool = False
    ) -> list[str]:
        """New variables that nothing was combined with yet; `joins`: of what runs give."""
        names = []
        for form in forms:
            neutral = self._name(_WIDE_NEUTRAL if joins and form.is_wide else form.neutral)
            names.append(self._fresh("a"))
            block.add(f"{names[-1]} = {neutral}")
        return names

    def _index(self, index: Affine, block: Block) -> str:
        return result_of(self._index_text(index, block))

    def _index_text(self, index: Affine, block: Block) -> Deep[str]:
        # Instructions of our own: numba takes long to find what Python's operators mean.
        text = str(index.constant) if index.constant or not index.terms else ""
        for atom, coefficient in index.terms:
            term: str = yield self._atom(atom, block)
            if coefficient != 1:
                term = f"mul({term}, {coefficient})"
            text = f"add({text}, {term})" if text else term
        return text

    def _atom(self, atom: Atom, block: Block) -> Deep[str]:
        if isinstance(atom, Variable):
            return self._loop_names[atom]
        if isinstance(atom, Computed):
            node = atom.node
            assert isinstance(node, Node)
            name: str = yield self._value(node)
            return name
        inner: str = yield self._index_text(atom.operand, block)
        function = "whole_div" if isinstance(atom, Quotient) else "whole_mod"
        return f"{function}({inner}, {atom.divisor})"


def _form(fold: Fold) -> VectorFold:
    form = vector_fold(fold)
    assert form is not None
    return form
