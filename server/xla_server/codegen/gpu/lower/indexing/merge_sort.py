"""Kernels of a merge sort on a GPU: tiles in shared memory, then passes that merge two runs.

Each pass is a launch. The sort is stable, and has n log2(n) (1 + log2(n) / 16) comparisons of n
entries in the mean.
"""

import dataclasses
from collections.abc import Sequence

from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.buffers.code import Value as Array
from xla_server.codegen.gpu.lower.indexing.merging import MERGED, Before, Entry, Load, Merge
from xla_server.codegen.gpu.lower.indexing.tile_sort import TileSort, tile_of
from xla_server.codegen.gpu.lower.thunks.thread_thunks import ThreadKernel
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Items
from xla_server.codegen.lower.lowering import Lowering


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
        width = tile_of(self.length, self.types)
        arrays, name = self._made(f"{self.name}.runs.{width}"), f"{self.name}.runs.{width}"
        tiles = TileSort(name, (self.lines, self.length), self.types, self.before)
        self.lowering.add(tiles.thunk(load, arrays))
        while width < self.length:
            arrays = self._add_pass(width, arrays)
            width *= 2
        return arrays

    def _made(self, name: str) -> list[Array]:
        count = self.lines * self.length
        return [
            self.lowering.new(Shape.array(kind, (count,)), f"{name}.{n}")
            for n, kind in enumerate(self.types)
        ]

    def _at(self, line: ir.Expression, number: ir.Expression) -> ir.Index:
        return ir.Index(0, ((line, self.length), (number, 1)))

    def _add_pass(self, width: int, arrays: Sequence[Array]) -> list[Array]:
        """Add the pass that merges runs of a width, and return what it gives."""
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
