"""Kernels of a merge sort on a GPU: tiles in shared memory, then passes that merge two runs.

In a tile, each thread sorts a few entries by insertion; runs are then merged to twice the length
until one is left. Blocks have 32 to 256 threads, and several lines where these are short.

Each pass is a launch. The sort is stable, and has n log2(n) (1 + log2(n) / 16) comparisons of n
entries in the mean.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence

from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.buffers.code import KernelThunk
from xla_server.buffers.code import Value as Array
from xla_server.codegen.gpu.lower.indexing.merging import MERGED, Before, Entry, Load, Merge
from xla_server.codegen.gpu.lower.thunks.thread_thunks import ThreadKernel
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Branch, Items, Loop, Repeat
from xla_server.codegen.kernel_ir.statements import Barrier, Break, ParallelFor
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.lowering import Lowering
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.target.gpu.properties import STATIC_SHARED_BYTES, WARP

MAX_TILE = 2048
"""Largest number of entries that a block of 256 threads sorts: two copies fit in shared memory."""


def tile_of(length: int, types: Sequence[ElementType]) -> int:
    """Return the entries of a tile, a power of two, whose parts are of these types."""
    tile = max(MERGED, 1 << (min(length, MAX_TILE) - 1).bit_length())
    bytes_of_two = 2 * sum(kind.byte_width for kind in types)
    while tile * bytes_of_two > STATIC_SHARED_BYTES:
        tile //= 2
    return tile


class TileSort:
    """Builder of the kernel of tiles. A block has several tiles if these are small.

    Numbers of entries are those in the block.
    """

    def __init__(
        self,
        name: str,
        lines: tuple[int, int],
        types: Sequence[ElementType],
        before: Before,
    ) -> None:
        """`lines` are their number, and the entries of one."""
        self._lines, self._length = lines
        self._tile = tile_of(self._length, types)
        self._entries = max(self._tile, MERGED * WARP)
        self._threads = self._entries // MERGED
        self._tiles = -(-self._length // self._tile)
        self._kernel, self._before = ThreadKernel(name), before
        self._names = self._kernel.names
        self._body, self._axis = Body(self._kernel.top), ir.Value("t", Type.I64)
        item = ir.Index(0, ((self._axis, 1),))
        self._block = self._body.let("block", ir.Quotient(item, self._threads))
        self._lane = self._body.let("lane", ir.Remainder(item, self._threads))
        self._shared = _Tile(self._kernel, types, self._entries)
        self._source = self._body.declare("source", ir.Index(0))

    def thunk(self, load: Load, made: Sequence[Array]) -> KernelThunk:
        """Return the thunk that sorts entries and stores their parts, line after line."""

        def load_entry(inside: Body, number: ir.Value, line: ir.Value, at: ir.Value) -> None:
            self._shared.store(inside, number, load(self._kernel, inside, line, at))

        def store_entry(inside: Body, number: ir.Value, line: ir.Value, at: ir.Value) -> None:
            to = inside.let(self._names("to"), ir.Index(0, ((line, self._length), (at, 1))))
            entry = self._shared.load(inside, ir.Index(0, ((self._source, 1), (number, 1))))
            for array, part in zip(made, entry, strict=True):
                self._kernel.store_integer(inside, array, to, part)

        self._each(load_entry)
        self._body.add(Barrier())
        first = self._body.let("first", ir.Index(0, ((self._lane, MERGED),)))
        line, begin, end, origin = self._placed(self._body, first)
        last = self._body.let("last", ir.Index(0, ((end, 1), (begin, -1), (origin, 1))))
        self._insert(line, first, last)
        self._body.add(Barrier())
        self._merge(line, first, last)
        self._each(store_entry)
        blocks = -(-self._lines * self._tiles // (self._entries // self._tile))
        body, items = tuple(self._body.statements), blocks * self._threads
        self._kernel.top.add(ParallelFor(self._axis, items, body, group=self._threads))
        return self._kernel.thunk(self._shared.arrays, self._threads, polls=False)

    def _placed(
        self, body: Body, number: ir.Expression
    ) -> tuple[ir.Value, ir.Value, ir.Value, ir.Value]:
        """Return the line of a number, begin and end of its tile there, and the tile's origin."""
        let, names, index = body.let, self._names, ir.Index(0, ((number, 1),))
        inside = ir.Quotient(index, self._tile)
        terms = (self._block, self._entries // self._tile), (inside, 1)
        at = ir.Index(0, ((let(names("tile"), ir.Index(0, terms)), 1),))
        line = let(names("line"), ir.Quotient(at, self._tiles))
        begin = let(names("begin"), ir.Index(0, ((ir.Remainder(at, self._tiles), self._tile),)))
        # Lines beyond the last have no entries.
        is_one = ir.condition("lt", line, self._lines)
        end = ir.integer_op("minimum", ir.plus(begin, self._tile), self._length)
        last = let(names("end"), ir.Apply("select", (is_one, end, begin), Type.I64))
        return line, begin, last, let(names("origin"), ir.Index(0, ((inside, self._tile),)))

    def _each(self, copy: Callable[[Body, ir.Value, ir.Value, ir.Value], None]) -> None:
        """Copy the entries of a thread, which alternate with those of all others."""
        with Loop(self._body, self._names("n"), MERGED) as loop:
            terms: tuple[tuple[ir.Expression, int], ...] = (
                (loop.axis, self._threads),
                (self._lane, 1),
            )
            number = loop.let(self._names("own"), ir.Index(0, terms))
            line, begin, end, origin = self._placed(loop, number)
            terms = (begin, 1), (number, 1), (origin, -1)
            at = loop.let(self._names("at"), ir.Index(0, terms))
            with Branch(loop, ir.condition("lt", at, end)) as branch:
                copy(branch, number, line, at)

    def _insert(self, line: ir.Expression, first: ir.Expression, last: ir.Expression) -> None:
        """Sort the few entries of a thread, within `first` and `last`."""
        end = ir.integer_op("minimum", ir.plus(first, MERGED), last)
        with Loop(self._body, "next", end, ir.plus(first, 1), iterations=MERGED - 1) as loop:
            at = loop.declare("hole", loop.axis)
            with Repeat(loop, ir.condition("gt", at, first), MERGED / 4) as moved:
                own = moved.let("right", at)
                other = moved.let("left", ir.plus(own, -1))
                entries = [self._shared.load(moved, number) for number in (other, own)]
                is_before = self._before(self._kernel, moved, line, entries[1], entries[0])
                with Branch(moved, is_before) as branch:
                    self._shared.store(branch, other, entries[1])
                    self._shared.store(branch, own, entries[0])
                    branch.set(at, other)
                    branch.orelse.add(Break())

    def _merge(self, line: ir.Expression, first: ir.Expression, last: ir.Expression) -> None:
        """Merge runs of the thread's entries until one is left, from one copy to the other."""
        width = self._body.declare("width", ir.Index(MERGED))
        runs = -(-min(self._tile, self._length) // MERGED)
        with Loop(self._body, "level", math.ceil(math.log2(runs))) as level:

            def load(inside: Body, number: ir.Expression) -> Entry:
                return self._shared.load(inside, ir.Index(0, ((self._source, 1), (number, 1))))

            def store(inside: Body, number: ir.Expression, entry: Entry) -> None:
                other = ir.Index(self._entries, ((self._source, -1), (number, 1)))
                self._shared.store(inside, inside.let(self._names("to"), other), entry)

            low = level.let("low", ir.integer_op("bit_and", first, ir.Index(0, ((width, -2),))))
            ends = [
                level.let(
                    self._names("end"),
                    ir.integer_op("minimum", ir.Index(0, ((low, 1), (width, n))), last),
                )
                for n in (1, 2)
            ]
            merge = Merge(self._kernel, line, load, store, self._before)
            merge.add(level, first, (low, *ends), last)
            level.set(width, ir.Index(0, ((width, 2),)))
            level.set(self._source, ir.Index(self._entries, ((self._source, -1),)))
            level.add(Barrier())


class _Tile:
    """Two copies of a tile's entries in shared memory."""

    def __init__(self, kernel: ThreadKernel, types: Sequence[ElementType], tile: int) -> None:
        self._names = kernel.names
        self._kinds = [Type(KERNEL_TYPE[kind].storage) for kind in types]
        self.arrays = [
            ir.SharedArray(f"tile{n}", 2 * tile * kind.byte_size)
            for n, kind in enumerate(self._kinds)
        ]

    def load(self, body: Body, number: ir.Expression) -> Entry:
        """Return the entry of a number."""
        found = []
        for array, kind in zip(self.arrays, self._kinds, strict=True):
            element = ir.integer_op("to_i64", ir.Load(array, kind, number))
            found.append(body.let(self._names("e"), element))
        return found

    def store(self, body: Body, number: ir.Expression, entry: Entry) -> None:
        """Store an entry."""
        for array, kind, part in zip(self.arrays, self._kinds, entry, strict=True):
            body.store(array, kind, number, ir.Apply(f"to_{kind}", (part,), kind))


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

    def add(self, load: Load, first: int | None = None) -> Sequence[Array]:
        """Add the passes; return the parts of sorted entries, line after line.

        If only the `first` entries of each line are read, lines may be shorter than before.
        """
        width = tile_of(self.length, self.types)
        arrays, name = self._made(f"{self.name}.runs.{width}"), f"{self.name}.runs.{width}"
        tiles = TileSort(name, (self.lines, self.length), self.types, self.before)
        self.lowering.add(tiles.thunk(load, arrays))
        if first is not None and 2 * first <= width < self.length:
            return self._add_first(width, arrays, first)
        while width < self.length:
            arrays = self._add_pass(width, arrays)
            width *= 2
        return arrays

    def _add_first(self, width: int, arrays: Sequence[Array], first: int) -> Sequence[Array]:
        """Add the sort of the `first` entries of each run: of half of all at most."""
        runs, rest = divmod(self.length, width)

        def load(
            kernel: ThreadKernel, body: Body, line: ir.Expression, number: ir.Expression
        ) -> Entry:
            index = ir.Index(0, ((number, 1),))
            run, offset = ir.Quotient(index, first), ir.Remainder(index, first)
            terms = (line, self.length), (run, width), (offset, 1)
            at = body.let(kernel.names("at"), ir.Index(0, terms))
            return [body.let(kernel.names("e"), kernel.load_integer(a, at)) for a in arrays]

        length, name = runs * first + min(rest, first), f"{self.name}.first"
        return dataclasses.replace(self, name=name, length=length).add(load, first)

    def _made(self, name: str) -> list[Array]:
        count = self.lines * self.length
        return [
            self.lowering.new(Shape.array(kind, (count,)), f"{name}.{n}")
            for n, kind in enumerate(self.types)
        ]

    def _at(self, line: ir.Expression, number: ir.Expression) -> ir.Index:
        return ir.Index(0, ((line, self.length), (number, 1)))

    def _add_pass(self, width: int, arrays: Sequence[Array]) -> list[Array]:
        """Add the pass that merges runs of a width; return the merged arrays."""
        kernel, length = ThreadKernel(f"{self.name}.runs.{2 * width}"), self.length
        made = self._made(f"{self.name}.runs.{2 * width}")
        each = -(-length // MERGED)
        with Items(kernel.top, self.lines * each) as body:
            item = ir.Index(0, ((body.axis, 1),))
            line = body.let("line", ir.Quotient(item, each))
            first = body.let("first", ir.Index(0, ((ir.Remainder(item, each), MERGED),)))
            pair = ir.Quotient(ir.Index(0, ((first, 1),)), 2 * width)
            low = body.let("low", ir.Index(0, ((pair, 2 * width),)))
            ends = [ir.integer_op("minimum", ir.plus(low, n * width), length) for n in (1, 2)]

            def load(inside: Body, number: ir.Expression) -> Entry:
                at = inside.let(kernel.names("at"), self._at(line, number))
                return [inside.let(kernel.names("e"), kernel.load_integer(a, at)) for a in arrays]

            def store(inside: Body, number: ir.Expression, entry: Entry) -> None:
                at = inside.let(kernel.names("to"), self._at(line, number))
                for array, part in zip(made, entry, strict=True):
                    kernel.store_integer(inside, array, at, part)

            merge = Merge(kernel, line, load, store, self.before)
            merge.add(
                body, first, (low, *(body.let(kernel.names("end"), end) for end in ends)), length
            )
        self.lowering.add(kernel.thunk(polls=False))
        return made
