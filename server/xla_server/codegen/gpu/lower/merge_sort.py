"""Kernels of a merge sort on a GPU: tiles in shared memory, then passes that merge two runs.

A block sorts a tile: each of its threads inserts a few entries into their order, and runs of twice
the length are merged until one is left. Passes do the same with longer runs in memory, a launch for
each. A thread finds by bisection where its part of the merged run begins in both runs, and merges
some entries from there. The right run's entry goes first only if it comes before that of the left:
the sort is stable. It has n log2(n) (1 + log2(n) / 16) comparisons in the mean.

Threads read entries of their runs and store to numbers of their own whatever a comparator says: of
one that is no strict weak order, results have elements of the line, some perhaps repeatedly.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeAlias

from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.buffers.code import Value as Array
from xla_server.codegen.gpu.lower.thread_thunks import ThreadKernel
from xla_server.codegen.kernel_ir.builder import Body, Branch, Items, Loop, Repeat
from xla_server.codegen.kernel_ir.expressions import (
    Apply,
    Cell,
    Expression,
    Index,
    Quotient,
    Remainder,
    SharedArray,
    Value,
    condition,
    integer_op,
    opaque,
    plus,
)
from xla_server.codegen.kernel_ir.expressions import Load as LoadExpression
from xla_server.codegen.kernel_ir.statements import Barrier, Break, Part
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.lowering import Lowering
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.target.gpu import STATIC_SHARED_BYTES, WARP

MERGED = 8
"""Entries that a thread merges."""

TILE = 2048
"""Entries that a block of 256 threads sorts at most: with two copies they fit in shared memory."""

Entry: TypeAlias = Sequence[Expression]
"""The parts of what is sorted, integers as they are computed."""

Load: TypeAlias = Callable[[ThreadKernel, Body, Expression, Expression], Entry]
"""Returns the entry of a number in a line."""

Before: TypeAlias = Callable[[ThreadKernel, Body, Expression, Entry, Entry], Expression]
"""Returns whether, in a line, the first of two entries comes before the second."""


@dataclasses.dataclass(frozen=True, slots=True)
class MergeSort:
    """The sort of `lines` of `length` entries, which is at least two.

    `types` are those of an entry's parts in memory, integers of 32 or 64 bits.
    """

    lowering: Lowering
    name: str
    lines: int
    length: int
    types: Sequence[ElementType]
    before: Before

    def add(self, load: Load) -> Sequence[Array]:
        """Add the passes; return the parts of sorted entries, line after line."""
        width = self.tile
        arrays = self._add_tiles(load)
        while width < self.length:
            arrays = self._add_pass(width, arrays)
            width *= 2
        return arrays

    @property
    def tile(self) -> int:
        """The entries of a line that a thread group sorts: a power of two."""
        tile = max(MERGED, 1 << (min(self.length, TILE) - 1).bit_length())
        bytes_of_two = 2 * sum(kind.byte_width for kind in self.types)
        while tile * bytes_of_two > STATIC_SHARED_BYTES:
            tile //= 2
        return tile

    def _made(self, name: str) -> list[Array]:
        count = self.lines * self.length
        return [
            self.lowering.new(Shape.array(kind, (count,)), f"{name}.{n}")
            for n, kind in enumerate(self.types)
        ]

    def _at(self, line: Expression, number: Expression) -> Index:
        return Index(0, ((line, self.length), (number, 1)))

    def _add_pass(self, width: int, arrays: Sequence[Array]) -> list[Array]:
        """Add the pass that merges runs of a width, and return what it gives."""
        kernel, length = ThreadKernel(f"{self.name}.runs.{2 * width}"), self.length
        made = self._made(f"{self.name}.runs.{2 * width}")
        each = -(-length // MERGED)
        with Items(kernel.top, self.lines * each) as body:
            item = Index(0, ((body.axis, 1),))
            line = body.let("line", Quotient(item, each))
            first = body.let("first", Index(0, ((Remainder(item, each), MERGED),)))
            pair = Quotient(Index(0, ((first, 1),)), 2 * width)
            low = body.let("low", Index(0, ((pair, 2 * width),)))
            ends = [integer_op("minimum", plus(low, n * width), length) for n in (1, 2)]

            def load(inside: Body, number: Expression) -> Entry:
                at = inside.let(kernel.names("at"), self._at(line, number))
                return [inside.let(kernel.names("e"), kernel.load_integer(a, at)) for a in arrays]

            def store(inside: Body, number: Expression, entry: Entry) -> None:
                at = inside.let(kernel.names("to"), self._at(line, number))
                for array, part in zip(made, entry, strict=True):
                    kernel.store_integer(inside, array, at, part)

            merge = _Merge(kernel, line, load, store, self.before)
            merge.add(body, first, (low, *(body.let("end", end) for end in ends)), length)
        self.lowering.add(kernel.thunk())
        return made

    def _add_tiles(self, load: Load) -> list[Array]:
        """Add the kernel that sorts tiles, and return what it gives.

        A block has several short lines. Numbers of entries are those in the block: a thread's own
        are from `first` on, and `origin` is that of its tile.
        """
        tile, name, length = self.tile, f"{self.name}.runs.{self.tile}", self.length
        kernel, made = ThreadKernel(name), self._made(name)
        entries, tiles = max(tile, MERGED * WARP), -(-length // tile)
        threads = entries // MERGED
        shared = _Tile(kernel, self.types, entries)
        axis, body = Value("t", Type.I64), Body(kernel.top)
        item = Index(0, ((axis, 1),))
        block = body.let("block", Quotient(item, threads))
        lane = body.let("lane", Remainder(item, threads))

        def place(inside: Body, number: Expression) -> tuple[Value, Value, Value, Value]:
            """Return the line of a number, its tile's begin and end in it, and its origin."""
            names, index = kernel.names, Index(0, ((number, 1),))
            number_of = Index(0, ((block, entries // tile), (Quotient(index, tile), 1)))
            tile_of = inside.let(names("tile"), number_of)
            at = Index(0, ((tile_of, 1),))
            line = inside.let(names("line"), Quotient(at, tiles))
            begin = inside.let(names("begin"), Index(0, ((Remainder(at, tiles), tile),)))
            # Lines behind the last have no entries.
            is_one = condition("lt", line, self.lines)
            end = integer_op("minimum", plus(begin, tile), length)
            end = Apply("select", (is_one, end, begin), Type.I64)
            origin = Index(0, ((Quotient(index, tile), tile),))
            return line, begin, inside.let(names("end"), end), inside.let(names("origin"), origin)

        def each(copy: Callable[[Body, Value, Value, Value], None]) -> None:
            """Copy the entries of a thread, between which are those of all others."""
            with Loop(body, kernel.names("n"), MERGED) as loop:
                terms = (loop.axis, threads), (lane, 1)
                number = loop.let(kernel.names("own"), Index(0, terms))
                line, begin, end, origin = place(loop, number)
                terms = (begin, 1), (number, 1), (origin, -1)
                at = loop.let(kernel.names("at"), Index(0, terms))
                with Branch(loop, condition("lt", at, end)) as branch:
                    copy(branch, number, line, at)

        def take(inside: Body, number: Value, line: Value, at: Value) -> None:
            shared.store(inside, number, load(kernel, inside, line, at))

        each(take)
        body.add(Barrier())
        first = body.let("first", Index(0, ((lane, MERGED),)))
        line, begin, end, origin = place(body, first)
        last = body.let("last", Index(0, ((end, 1), (begin, -1), (origin, 1))))
        self._insert(kernel, body, line, shared, (first, last))
        body.add(Barrier())
        source = body.declare("source", Index(0))
        width = body.declare("width", Index(MERGED))
        with Loop(body, "turn", (-(-min(tile, length) // MERGED) - 1).bit_length()) as turn:
            low = turn.let("low", integer_op("bit_and", first, Index(0, ((width, -2),))))
            ends = [integer_op("minimum", Index(0, ((low, 1), (width, n))), last) for n in (1, 2)]

            def read(inside: Body, number: Expression) -> Entry:
                return shared.load(inside, Index(0, ((source, 1), (number, 1))))

            def write(inside: Body, number: Expression, entry: Entry) -> None:
                other = Index(entries, ((source, -1), (number, 1)))
                shared.store(inside, inside.let(kernel.names("to"), other), entry)

            merge = _Merge(kernel, line, read, write, self.before)
            merge.add(turn, first, (low, *(turn.let("end", found) for found in ends)), last)
            turn.set(width, Index(0, ((width, 2),)))
            turn.set(source, Index(entries, ((source, -1),)))
            turn.add(Barrier())

        def give(inside: Body, number: Value, line: Value, at: Value) -> None:
            entry = shared.load(inside, Index(0, ((source, 1), (number, 1))))
            to = inside.let(kernel.names("to"), self._at(line, at))
            for array, part in zip(made, entry, strict=True):
                kernel.store_integer(inside, array, to, part)

        each(give)
        blocks = -(-self.lines * tiles // (entries // tile))
        kernel.top.add(Part(axis, blocks * threads, tuple(body.statements), group=threads))
        self.lowering.add(kernel.thunk(shared.arrays, threads))
        return made

    def _insert(
        self,
        kernel: ThreadKernel,
        body: Body,
        line: Expression,
        shared: "_Tile",
        numbers: tuple[Expression, Expression],
    ) -> None:
        """Sort the few entries of a thread, from a number on and up to another at most."""
        first, last = numbers
        end = integer_op("minimum", plus(first, MERGED), last)
        with Loop(body, "next", end, plus(first, 1), iterations=MERGED - 1) as loop:
            at = loop.declare("hole", loop.axis)
            with Repeat(loop, condition("gt", at, first), MERGED / 4) as moved:
                own = moved.let("right", at)
                other = moved.let("left", plus(own, -1))
                entries = [shared.load(moved, number) for number in (other, own)]
                is_before = self.before(kernel, moved, line, entries[1], entries[0])
                with Branch(moved, is_before) as branch:
                    shared.store(branch, other, entries[1])
                    shared.store(branch, own, entries[0])
                    branch.set(at, other)
                    branch.orelse.add(Break())


class _Tile:
    """Two copies of a tile's entries in shared memory."""

    def __init__(self, kernel: ThreadKernel, types: Sequence[ElementType], tile: int) -> None:
        self._names = kernel.names
        self._kinds = [Type(KERNEL_TYPE[kind].storage) for kind in types]
        self.arrays = [
            SharedArray(f"tile{n}", 2 * tile * kind.byte_size) for n, kind in enumerate(self._kinds)
        ]

    def load(self, body: Body, number: Expression) -> Entry:
        """Return the entry of a number."""
        found = []
        for array, kind in zip(self.arrays, self._kinds, strict=True):
            element = integer_op("to_i64", LoadExpression(array, kind, number))
            found.append(body.let(self._names("e"), element))
        return found

    def store(self, body: Body, number: Expression, entry: Entry) -> None:
        """Store an entry."""
        for array, kind, part in zip(self.arrays, self._kinds, entry, strict=True):
            body.store(array, kind, number, Apply(f"to_{kind}", (part,), kind))


@dataclasses.dataclass(frozen=True, slots=True)
class _Merge:
    """The merge of two neighbouring runs, of which a thread gives some entries."""

    kernel: ThreadKernel
    line: Expression
    load: Callable[[Body, Expression], Entry]
    store: Callable[[Body, Expression, Entry], None]
    before: Before

    def add(
        self,
        body: Body,
        first: Expression,
        runs: tuple[Expression, ...],
        count: int | Expression,
    ) -> None:
        """Store entries from number `first` on, of the runs between three numbers.

        Numbers of entries are below `count`: a number beyond has nothing to store.
        """
        _, middle, high = runs
        left, right = self._begun(body, first, runs)
        names = self.kernel.names
        rest = integer_op("minimum", integer_op("sub", count, first), opaque(MERGED))
        last = body.let(names("last"), plus(count, -1))
        with Loop(body, names("n"), rest, iterations=MERGED) as loop:
            entries = [
                self.load(loop, loop.let(names("own"), integer_op("minimum", number, last)))
                for number in (left, right)
            ]
            is_before = self.before(self.kernel, loop, self.line, entries[1], entries[0])
            is_alone = condition("ge", left, middle)
            is_first = condition("bit_or", is_before, is_alone)
            takes = condition("bit_and", condition("lt", right, high), is_first)
            takes_right = loop.let(names("takes"), takes)
            entry = [
                loop.let(names("e"), Apply("select", (takes_right, *pair), Type.I64))
                for pair in zip(entries[1], entries[0], strict=True)
            ]
            self.store(loop, Index(0, ((first, 1), (loop.axis, 1))), entry)
            one = loop.let(names("one"), integer_op("to_i64", takes_right))
            loop.set(left, Index(1, ((left, 1), (one, -1))))
            loop.set(right, Index(0, ((right, 1), (one, 1))))

    def _begun(
        self, body: Body, first: Expression, runs: tuple[Expression, ...]
    ) -> tuple[Cell, Cell]:
        """Return the numbers in both runs that the entries from `first` on begin with.

        The left run has `taken` of the entries `ahead`.
        """
        low, middle, high = runs
        names = self.kernel.names
        ahead = body.let(names("ahead"), Index(0, ((first, 1), (low, -1))))
        behind = Index(0, ((ahead, 1), (high, -1), (middle, 1)))
        size = Index(0, ((middle, 1), (low, -1)))
        taken = body.declare("taken", integer_op("maximum", behind, 0))
        most = body.declare("most", integer_op("minimum", ahead, size))
        with Repeat(body, condition("lt", taken, most), 8) as loop:
            half = loop.let("half", Quotient(Index(0, ((taken, 1), (most, 1))), 2))
            at = Index(0, ((low, 1), (half, 1)))
            left = self.load(loop, loop.let(names("l"), at))
            at = Index(-1, ((middle, 1), (ahead, 1), (half, -1)))
            right = self.load(loop, loop.let(names("r"), at))
            with Branch(loop, self.before(self.kernel, loop, self.line, right, left)) as branch:
                branch.set(most, half)
                branch.orelse.set(taken, plus(half, 1))
        terms = ((low, 1), (taken, 1)), ((middle, 1), (ahead, 1), (taken, -1))
        begins = [Index(0, each) for each in terms]
        return body.declare("left", begins[0]), body.declare("right", begins[1])


def integer_type(count: int) -> ElementType:
    """Return the type of numbers below a count."""
    return ElementType.S32 if count < 1 << 31 else ElementType.S64
