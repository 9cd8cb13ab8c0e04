"""The schedule of transposes on a GPU: tiles pass through shared memory.

A warp loads neighbours of the operand and stores neighbours of the result. Shared memory has the
tile meanwhile, in rows padded by one access of a thread, so that the elements of a column are in
different banks. The threads that store read all other operands, so a fusion that reads one operand
transposed is one kernel. Semantics: XLA's GPU backend, its transpose emitter.
"""

import math
from collections.abc import Sequence

from xla_server.codegen.gpu.grid import GridKernel, index_bits
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Block, Body, Branch, Loop, positions
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Barrier, ParallelFor
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.schedules.builders.graph_builder import applied
from xla_server.codegen.schedules.builders.loop_builder import LoopBuilder, Nest, close
from xla_server.codegen.schedules.builders.stored_nodes import all_nodes
from xla_server.codegen.schedules.reductions.reduction_groups import reductions_of
from xla_server.codegen.trace.graph import Apply, Load, Store
from xla_server.ir.analysis.affine import Variable
from xla_server.ir.explicit_stack import Deep
from xla_server.target.gpu.properties import BANK_BYTES, BLOCK_THREADS, STATIC_SHARED_BYTES, WARP

_SHORTEST = WARP // 2
"""Elements along both loops below which tiles are mostly empty, and caches do as well."""

_ROWS = BLOCK_THREADS // WARP
"""Rows of a tile that the threads of a block access at once."""


def transpose_grid(nest: Nest, largest: int) -> GridKernel | None:
    """Return the kernel of a nest that reads operands along another loop; None for others.

    `largest` is the number of elements of the largest array that the kernel has an index of.
    """
    if reductions_of(nest.stores) or len(nest.loops) < 2:
        return None
    last = nest.loops[-1]
    if last.size < _SHORTEST or not all(s.offset.coefficient(last) == 1 for s in nest.stores):
        return None
    loads = [node for node in all_nodes(nest.stores) if isinstance(node, Load)]
    moved = [(load, _neighbours(load, nest)) for load in loads]
    across = next((loop for _, loop in moved if loop is not None), None)
    if across is None:
        return None
    staged = [load for load, loop in moved if loop is across]
    builder = _TileBuilder(nest, across, staged)
    if builder.shared_bytes > STATIC_SHARED_BYTES:
        return None
    return GridKernel(builder.built(), index_bits=index_bits(largest))


def _run_of(nest: Nest, across: Variable, staged: Sequence[Load]) -> int:
    """Return how many neighbours a thread moves: two of a narrow type, if all are aligned."""
    accesses: list[Store | Load] = [*nest.stores, *staged]
    widest = max(Type(each.kernel_type.storage).byte_size for each in accesses)
    offsets = [each.offset for each in accesses]
    numbers = [
        f for each in offsets for f in (each.constant, *(f for _, f in each.terms)) if f != 1
    ]
    is_aligned = not any(n % 2 for n in (*numbers, across.size, nest.loops[-1].size))
    return 2 if 2 * widest <= BANK_BYTES and is_aligned else 1


def _neighbours(load: Load, nest: Nest) -> Variable | None:
    """Return the loop along which a load that strides along the last one has neighbours."""
    if abs(load.offset.coefficient(nest.loops[-1])) <= 1:
        return None
    found = (loop for loop in nest.loops[:-1] if load.offset.coefficient(loop) == 1)
    return next((loop for loop in found if loop.size >= _SHORTEST), None)


class _TileBuilder(LoopBuilder):
    """Builds a block for each tile of the last loop and the loop `across`."""

    def __init__(self, nest: Nest, across: Variable, staged: Sequence[Load]) -> None:
        super().__init__(nest)
        self._across, self._last = across, nest.loops[-1]
        # `_size` is the number of elements of a tile along either loop.
        self._run = _run_of(nest, across, staged)
        self._size = WARP * self._run
        self._staged = {load: self._tile_buffer(load) for load in staged}
        self._tiles: dict[Variable, ir.Value] = {}
        self._position: ir.Expression | None = None

    def _tile_buffer(self, load: Load) -> ir.SharedArray:
        pitch = self._size + self._run
        return self._shared_array(self._size * pitch * Type(load.kernel_type.storage).byte_size)

    def built(self) -> Kernel:
        """Return the kernel."""
        body, axis = Body(self._top), self._axis("t")
        self._invariants = body
        blocks = self._bind(axis, body)
        known = dict(self._values), dict(self._stored)
        opened, column, row = self._open_tile(self._across, self._last, body)
        for load, array in self._staged.items():
            self._value(load)
            at = ir.Index(0, ((row, self._size + self._run), (column, 1)))
            opened[-1].store(array, load.kernel_type.storage, at, self._stored[load])
        close(opened)
        body.add(Barrier())
        # Values are those of other elements now.
        self._values, self._stored = known
        opened, column, row = self._open_tile(self._last, self._across, body)
        self._position = ir.Index(0, ((column, self._size + self._run), (row, 1)))
        self._store(self._nest.stores, opened[-1])
        close(opened)
        items = blocks * BLOCK_THREADS
        self._top.add(ParallelFor(axis, items, tuple(body.statements), group=BLOCK_THREADS))
        return self._kernel()

    def _bind(self, axis: ir.Value, body: Body) -> int:
        """Bind the position of a thread, its tile and the outer variables; return the blocks."""
        item = ir.Index(0, ((axis, 1),))
        thread = ir.Index(0, ((body.let(self._names("i"), ir.Remainder(item, BLOCK_THREADS)), 1),))
        self._lane = body.let(self._names("i"), ir.Remainder(thread, WARP))
        self._row = body.let(self._names("i"), ir.Quotient(thread, WARP))
        number = body.let(self._names("t"), ir.Quotient(item, BLOCK_THREADS))
        tiled, loops = (self._across, self._last), self._nest.loops
        counts = [-(-each.size // self._size) if each in tiled else each.size for each in loops]
        found = positions(body, self._names, number, counts)
        for loop, value in zip(loops, found, strict=True):
            if loop in tiled:
                self._tiles[loop] = value
            else:
                self._indices[loop], self._bodies[loop] = value, body
        return math.prod(counts)

    def _open_tile(
        self, along: Variable, down: Variable, outside: Body
    ) -> tuple[list[Block], ir.Value, ir.Value]:
        """Begin the loops of a thread over its elements of a tile; lanes are neighbours `along`.

        Return the opened blocks, and the numbers of the column and the row inside the tile.
        """
        outer = Loop(outside, self._names("i"), self._size // _ROWS, unrolled=True)
        row = outer.let(self._names("i"), ir.Index(0, ((outer.axis, _ROWS), (self._row, 1))))
        opened: list[Block] = [outer]
        first = ir.Index(0, ((self._lane, self._run),))
        for loop, number in ((along, first), (down, row)):
            if loop.size % self._size:
                end = ir.Index(loop.size, ((self._tiles[loop], -self._size),))
                share = loop.size / (-(-loop.size // self._size) * self._size)
                opened.append(Branch(opened[-1], ir.condition("lt", number, end), share))
        element = Loop(opened[-1], self._names("i"), self._run, unrolled=True)
        opened.append(element)
        terms = (self._lane, self._run), (element.axis, 1)
        column = element.let(self._names("i"), ir.Index(0, terms))
        for loop, number in ((along, column), (down, row)):
            index = ir.Index(0, ((self._tiles[loop], self._size), (number, 1)))
            self._indices[loop] = element.let(self._names("i"), index)
        self._bodies[along] = self._bodies[down] = element
        return opened, column, row

    def _operation(self, node: Load | Apply) -> Deep[ir.Expression]:
        if self._position is None or not isinstance(node, Load) or node not in self._staged:
            value: ir.Expression = yield super()._operation(node)
            return value
        kind, body = node.kernel_type, self._bodies[self._last]
        load = ir.Load(self._staged[node], Type(kind.storage), self._position)
        self._stored[node] = stored = body.let(self._names("v"), load)
        if kind.widen is None:
            return stored
        return body.let(self._names("v"), applied(kind.widen, stored, kind.computed))
