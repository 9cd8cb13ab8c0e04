"""The kernel of a scatter: loops over the updates, and the combination of each."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TypeVar

from xla_contract.types.dimension_numbers import ScatterDimensionNumbers
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Branch, Items, Loop, Names
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Let, Statement, Stop
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.indexing.scatter_space import Division, Ranges, Space, UpdateBlocks
from xla_server.codegen.schedules.builders.launches.stopping import SPAN, span_of, watched_loop
from xla_server.codegen.schedules.builders.scalar_builder import (
    apply_computation,
    load_element,
    store_element,
)
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.ir.module import HloComputation
from xla_server.target.kernel_tuning import Scatters

_Open = TypeVar("_Open", bound=Body)


@dataclasses.dataclass(frozen=True, slots=True)
class Combination:
    """Statements that compute elements from `old` ones of results and `new` ones of updates.

    Both are values bound before the statements, with their element types.
    """

    old: Sequence[tuple[ir.Value, ElementType]]
    new: Sequence[tuple[ir.Value, ElementType]]
    statements: Sequence[Statement]
    results: Sequence[ir.Expression]

    @staticmethod
    def of(
        computation: HloComputation,
        results: Sequence[ElementType],
        updates: Sequence[ElementType],
        prefix: str = "",
    ) -> "Combination":
        """Return the combiner of arrays of these types; `prefix` begins the names of its values."""
        old, new = (
            [
                (ir.Value(f"{prefix}{name}{n}", Type(KERNEL_TYPE[kind].computed)), kind)
                for n, kind in enumerate(types)
            ]
            for name, types in (("old", results), ("new", updates))
        )
        body = Body()
        combined = apply_computation(body, Names(prefix), computation, [*old, *new], results)
        return Combination(old, new, body.statements, combined)


@dataclasses.dataclass(frozen=True, slots=True)
class Arguments:
    """The buffers of a kernel. `flag` is the cancellation flag if the kernel tests it."""

    indices: ir.Buffer
    results: Sequence[ir.Buffer]
    updates: Sequence[ir.Buffer]
    flag: ir.Buffer | None


class ScatterKernel:
    """Builder of a scatter's kernel. Loops stay open until the innermost body is complete."""

    def __init__(
        self,
        space: Space,
        numbers: ScatterDimensionNumbers,
        indices: Shape,
        buffers: Arguments,
        combiner: Combination,
        tuned: Scatters,
    ) -> None:
        self._space = space
        self._vector = numbers.index_vector_dim
        self._shape = indices
        self._buffers = buffers
        self._combiner = combiner
        self._tuned = tuned
        self._top = Body()
        self._body = self._top
        self._opened = ExitStack()
        self._stack: tuple[ir.StackArray, ...] = ()
        self._position: dict[int, ir.Expression] = {}
        """Indices along update dimensions."""
        self._starts: dict[int, ir.Value] = {}
        """The entries of the index vector, by dimensions of the result."""

    def kernel(self, arguments: Sequence[ir.Buffer], division: Division) -> Kernel:
        """Return the kernel."""
        with self._opened:
            if isinstance(division, Ranges):
                self._add_ranges(division)
            else:
                self._add_blocks(division)
        return Kernel(tuple(arguments), self._stack, tuple(self._top.statements))

    def _open(self, block: AbstractContextManager[_Open]) -> _Open:
        body = self._body = self._opened.enter_context(block)
        return body

    def _add_blocks(self, division: UpdateBlocks | None) -> None:
        """Append all updates of a work item's block, in order.

        An index vector is read in the innermost loop that it depends on.
        """
        sizes, batch_dims = self._space.updates, self._space.batch_dims
        split, block = (division.dimension, division.size) if division else (-1, 1)
        item = self._open(Items(self._body, division.work_items if division else 1)).axis
        if not batch_dims:
            self._read_vector()
        polled, period = -1, 1
        if self._buffers.flag:
            polled, period = span_of([block if d == split else n for d, n in enumerate(sizes)])
        for dimension, size in enumerate(sizes):
            span = period if dimension == polled else 0
            if dimension == split:
                end = ir.integer_op("minimum", ir.Index(block, ((item, block),)), size)
                self._open_loop(dimension, span, (ir.Index(0, ((item, block),)), end), block)
            else:
                self._open_loop(dimension, span, self._whole(dimension), size)
            if batch_dims and dimension == batch_dims[-1]:
                self._read_vector()
        self._update()

    def _open_loop(
        self, dimension: int, span: int, bounds: tuple[ir.Expression, ir.Expression], size: int
    ) -> None:
        """Open a loop along an update dimension; it polls before each `span` updates, if not 0."""
        (low, high), flag = bounds, self._buffers.flag if span else None
        name = f"u{dimension}"
        loop = self._open(watched_loop(self._body, name, high, low, size, flag, span))
        self._position[dimension] = loop.axis

    def _whole(self, dimension: int) -> tuple[ir.Expression, ir.Expression]:
        """Return the bounds of an update dimension; the last one's prevent unrolling.

        Unrolled copies of a work item are not vectorised: for eight neighbours they take nearly
        three times as long.
        """
        size = self._space.updates[dimension]
        is_last = dimension == len(self._space.updates) - 1
        return ir.Index(0), ir.opaque(size) if is_last and size > 1 else ir.Index(size)

    def _add_ranges(self, division: Ranges) -> None:
        """Append the updates in a work item's range of the result, in order.

        The numbers of their index vectors are listed first: a branch for each would be mispredicted
        half of the time. Their windows are tested for bounds after that.
        """
        space, vectors = self._space, self._space.vectors
        listed = min(max(1, SPAN // space.window_elements), self._tuned.listed_vectors, vectors)
        own = ir.StackArray("own", 8 * listed)
        self._stack = (own,)
        item = self._open(Items(self._body, division.work_items)).axis
        first = self._open(Loop(self._body, "first", vectors, step=listed)).axis
        if self._buffers.flag:
            self._body.add(Stop(self._buffers.flag))
        count = self._body.declare("count", ir.Index(0))
        end = ir.integer_op("minimum", ir.plus(first, listed), vectors)
        with Loop(self._body, "v", end, first, iterations=listed) as loop:
            number = self._index(self._entry_of(division.dimension, loop))
            shift = ir.Const(Type.I64, (division.shift,))
            piece = loop.let("piece", ir.integer_op("shift_right_arithmetic", number, shift))
            loop.store(own, "i64", count, loop.axis)
            owner = ir.integer_op("bit_and", piece, division.work_items - 1)
            is_own = ir.condition("eq", owner, item)
            loop.set(count, ir.plus(count, ir.integer_op("to_i64", is_own)))
        k = self._open(Loop(self._body, "k", count, iterations=listed / division.work_items)).axis
        found = self._body.let("found", ir.Load(own, Type.I64, k))
        self._position.update(self._coordinates(self._body, found, "u"))
        self._read_vector()
        sizes = [space.updates[d] for d in space.window_dims]
        polled, period = span_of(sizes) if self._buffers.flag and listed == 1 and sizes else (-1, 1)
        for number_of, d in enumerate(space.window_dims):
            span = period if number_of == polled else 0
            self._open_loop(d, span, self._whole(d), space.updates[d])
        self._update()

    def _entry_of(self, dimension: int, vectors: Loop) -> ir.Index:
        """Return the index of the entry for a dimension, in the index vector of an iteration."""
        entry = self._space.scattered[dimension]
        if self._vector < self._shape.rank - 1:
            return self._entry(entry, self._coordinates(vectors, vectors.axis, "c"))
        entries = sum(each >= 0 for each in self._space.scattered)
        return ir.Index(entry if entries > 1 else 0, ((vectors.axis, entries),))

    def _coordinates(self, body: Body, vector: ir.Value, name: str) -> dict[int, ir.Expression]:
        """Return the indices along batch dimensions of the index vector of a number."""
        dims = self._space.batch_dims
        found = coordinates(vector, self._space.updates, dims)
        return {d: body.let(f"{name}{d}", index) for d, index in found}

    def _entry(self, entry: int, position: dict[int, ir.Expression]) -> ir.Index:
        """Return the index of an entry of the index vector at a position of batch dimensions."""
        at = [position[d] for d in self._space.batch_dims]
        return entry_index(self._shape, self._vector, entry, at)

    def _index(self, element_at: ir.Index) -> ir.Expression:
        return load_entry(self._shape, self._buffers.indices, element_at)

    def _read_vector(self) -> None:
        """Read an index vector, and continue if its window is within bounds."""
        fits: list[ir.Expression] = []
        for d, (size, entry) in enumerate(
            zip(self._space.sizes, self._space.scattered, strict=True)
        ):
            if entry < 0:
                continue
            start = self._body.let(f"start{d}", self._index(self._entry(entry, self._position)))
            self._starts[d] = start
            fits.append(fits_within(start, size - self._space.extent(d)))
        if fits:
            self._open(Branch(self._body, ir.all_of(fits)))

    def _update(self) -> None:
        """Combine the updates of all arrays at the indices of all loops."""
        space, body, position = self._space, self._body, self._position
        element_at = []
        for d, dims in enumerate(zip(space.window, space.batch, strict=True)):
            terms: list[ir.Expression] = [self._starts[d]] if d in self._starts else []
            terms += [position[each] for each in dims if each >= 0]
            element_at.append(ir.Index(0, tuple((term, 1) for term in terms)))
        own = [position[d] for d in range(len(space.updates))]
        to = body.let("to", flat_index(element_at, space.sizes))
        at = body.let("at", flat_index(own, space.updates))
        combiner, buffers = self._combiner, self._buffers
        for memory, (value, kind) in zip(buffers.results, combiner.old, strict=True):
            body.add(Let(value, load_element(kind, memory, to)))
        for memory, (value, kind) in zip(buffers.updates, combiner.new, strict=True):
            body.add(Let(value, load_element(kind, memory, at)))
        body.add(*combiner.statements)
        for memory, (_, kind), made in zip(
            buffers.results, combiner.old, combiner.results, strict=True
        ):
            store_element(body, kind, memory, to, made)


def entry_index(indices: Shape, vector: int, entry: int, at: Sequence[ir.Expression]) -> ir.Index:
    """Return the index of an entry of the index vector at a position of its batch dimensions.

    `vector` is the dimension of index vectors, the rank if they are scalars.
    """
    element_at = list(at)
    if vector < indices.rank:
        element_at.insert(vector, ir.Index(entry))
    return flat_index(element_at, indices.dimensions)


def load_entry(indices: Shape, memory: ir.Buffer, at: ir.Index) -> ir.Expression:
    """Return the entry at an index as i64; larger ones become the largest i64."""
    kind = indices.element_type
    number = load_element(kind, memory, at)
    if kind.bit_width == 64 and not kind.is_signed_integer:
        # Entries beyond the range of i64 are out of bounds of every array.
        number = ir.Apply("minimum", (number, ir.Const(Type.U64, (2**63 - 1,))), Type.U64)
    return ir.integer_op("to_i64", number)


def fits_within(start: ir.Expression, last: int) -> ir.Expression:
    """Return a test that a window's start is from 0 to `last`."""
    return ir.condition("bit_and", ir.condition("ge", start, 0), ir.condition("le", start, last))


def flat_index(position: Sequence[ir.Expression], sizes: Sequence[int]) -> ir.Index:
    """Return the number of an element in a dense array."""
    constant, terms = 0, []
    for d, index in enumerate(position):
        stride, number = math.prod(sizes[d + 1 :]), ir.known(index)
        if number is None:
            terms.append((index, stride))
        else:
            constant += number * stride
    return ir.Index(constant, tuple(terms))


def coordinates(
    number: ir.Expression, sizes: Sequence[int], dims: Sequence[int]
) -> Iterator[tuple[int, ir.Expression]]:
    """Yield dimensions, each with the index there of a number that counts along all of them."""
    for n, d in enumerate(dims):
        inside = math.prod(sizes[each] for each in dims[n + 1 :])
        whole = ir.Index(0, ((number, 1),))
        index: ir.Expression = ir.Quotient(whole, inside) if inside > 1 else whole
        yield d, ir.Remainder(ir.Index(0, ((index, 1),)), sizes[d]) if n else index
