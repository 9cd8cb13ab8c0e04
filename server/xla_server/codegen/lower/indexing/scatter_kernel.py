"""The kernel of a scatter: loops over the updates, and what is done with each."""

import dataclasses
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TypeVar

from xla_contract.types.dimension_numbers import ScatterDimensionNumbers
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.codegen.kernel_ir.builder import Body, Branch, Items, Loop, Names
from xla_server.codegen.kernel_ir.expressions import (
    Apply,
    Buffer,
    Const,
    Expression,
    Index,
    Load,
    Quotient,
    Remainder,
    StackArray,
    Value,
    condition,
    integer_op,
    known,
    opaque,
    plus,
)
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Let, Statement, Stop
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.loops.builders.scalar_builder import (
    apply_computation,
    load_element,
    store_element,
)
from xla_server.codegen.loops.builders.stopping import SPAN, span_of, watched_loop
from xla_server.codegen.lower.indexing.scatter_space import Blocks, Division, Ranges, Space
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.ir.module import HloComputation
from xla_server.target.kernel_tuning import Scatters

_Open = TypeVar("_Open", bound=Body)


@dataclasses.dataclass(frozen=True, slots=True)
class Combiner:
    """Statements that make elements from the `old` ones of results and the `new` ones of updates.

    Both are values that are bound before, with their element types.
    """

    old: Sequence[tuple[Value, ElementType]]
    new: Sequence[tuple[Value, ElementType]]
    statements: Sequence[Statement]
    results: Sequence[Expression]

    @staticmethod
    def of(
        computation: HloComputation, results: Sequence[ElementType], updates: Sequence[ElementType]
    ) -> "Combiner":
        """Return the combiner of arrays of these types."""
        old, new = (
            [(Value(f"{name}{n}", Type(KERNEL_TYPE[kind].computed)), kind) for n, kind in types]
            for name, types in (("old", enumerate(results)), ("new", enumerate(updates)))
        )
        body = Body()
        combined = apply_computation(body, Names(), computation, [*old, *new], results)
        return Combiner(old, new, body.statements, combined)


@dataclasses.dataclass(frozen=True, slots=True)
class Buffers:
    """The buffers of a kernel. `word` is the cancellation flag if the kernel tests it."""

    indices: Buffer
    results: Sequence[Buffer]
    updates: Sequence[Buffer]
    word: Buffer | None


class ScatterKernel:
    """A kernel while it is built. Bodies are open until the innermost is complete."""

    def __init__(
        self,
        space: Space,
        numbers: ScatterDimensionNumbers,
        indices: Shape,
        buffers: Buffers,
        combiner: Combiner,
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
        self._stack: tuple[StackArray, ...] = ()
        self._position: dict[int, Expression] = {}
        """Indices along update dimensions."""
        self._starts: dict[int, Value] = {}
        """The entries of the index vector, by dimensions of the result."""

    def kernel(self, arguments: Sequence[Buffer], division: Division) -> Kernel:
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

    def _add_blocks(self, division: Blocks | None) -> None:
        """All updates of a work item's block, in order.

        An index vector is read in the innermost loop that it depends on.
        """
        sizes, batch_dims = self._space.updates, self._space.batch_dims
        split, block = (division.dimension, division.size) if division else (-1, 1)
        item = self._open(Items(self._body, division.work_items if division else 1)).axis
        if not batch_dims:
            self._read_vector()
        looking, turns = -1, 1
        if self._buffers.word:
            looking, turns = span_of([block if d == split else n for d, n in enumerate(sizes)])
        for dimension, size in enumerate(sizes):
            span = turns if dimension == looking else 0
            if dimension == split:
                end = integer_op("minimum", Index(block, ((item, block),)), size)
                self._open_loop(dimension, span, (Index(0, ((item, block),)), end), block)
            else:
                self._open_loop(dimension, span, self._whole(dimension), size)
            if batch_dims and dimension == batch_dims[-1]:
                self._read_vector()
        self._update()

    def _open_loop(
        self, dimension: int, span: int, bounds: tuple[Expression, Expression], size: int
    ) -> None:
        """Open a loop along an update dimension that tests the flag before each span, if not 0."""
        (low, high), word = bounds, self._buffers.word if span else None
        name = f"u{dimension}"
        loop = self._open(watched_loop(self._body, name, high, low, size, word, span))
        self._position[dimension] = loop.axis

    def _whole(self, dimension: int) -> tuple[Expression, Expression]:
        """Return the bounds of an update dimension, of the last one so that its loop stays one.

        Copies of a work item are no vectors: of eight neighbours they take nearly three times as
        long.
        """
        size = self._space.updates[dimension]
        is_last = dimension == len(self._space.updates) - 1
        return Index(0), opaque(size) if is_last and size > 1 else Index(size)

    def _add_ranges(self, division: Ranges) -> None:
        """The index vectors whose updates are in a work item's part of the result, in order.

        Their numbers are listed first: a branch for each would be mispredicted as often as not.
        The test that their windows fit comes after that.
        """
        space, vectors = self._space, self._space.vectors
        listed = min(max(1, SPAN // space.window_elements), self._tuned.listed_vectors, vectors)
        own = StackArray("own", 8 * listed)
        self._stack = (own,)
        item = self._open(Items(self._body, division.work_items)).axis
        first = self._open(Loop(self._body, "first", vectors, step=listed)).axis
        if self._buffers.word:
            self._body.add(Stop(self._buffers.word))
        count = self._body.declare("count", Index(0))
        end = integer_op("minimum", plus(first, listed), vectors)
        with Loop(self._body, "v", end, first, iterations=listed) as loop:
            number = self._index(self._entry_of(division.dimension, loop))
            shift = Const(Type.I64, (division.shift,))
            piece = loop.let("piece", integer_op("shift_right_arithmetic", number, shift))
            loop.store(own, "i64", count, loop.axis)
            owner = integer_op("bit_and", piece, division.work_items - 1)
            is_own = condition("eq", owner, item)
            loop.set(count, plus(count, integer_op("to_i64", is_own)))
        k = self._open(Loop(self._body, "k", count, iterations=listed / division.work_items)).axis
        found = self._body.let("found", Load(own, Type.I64, k))
        self._position.update(self._coordinates(self._body, found, "u"))
        self._read_vector()
        sizes = [space.updates[d] for d in space.window_dims]
        looking, turns = span_of(sizes) if self._buffers.word and listed == 1 and sizes else (-1, 1)
        for number_of, d in enumerate(space.window_dims):
            span = turns if number_of == looking else 0
            self._open_loop(d, span, self._whole(d), space.updates[d])
        self._update()

    def _entry_of(self, dimension: int, vectors: Loop) -> Index:
        """Return the index of the entry for a dimension in the vector of a loop."""
        entry = self._space.scattered[dimension]
        if self._vector < self._shape.rank - 1:
            return self._entry(entry, self._coordinates(vectors, vectors.axis, "c"))
        entries = sum(each >= 0 for each in self._space.scattered)
        return Index(entry if entries > 1 else 0, ((vectors.axis, entries),))

    def _coordinates(self, body: Body, vector: Value, name: str) -> dict[int, Expression]:
        """Return the indices along batch dimensions of the index vector of a number."""
        dims = self._space.batch_dims
        found: dict[int, Expression] = {}
        for n, d in enumerate(dims):
            inside = math.prod(self._space.updates[d] for d in dims[n + 1 :])
            index: Expression = Index(0, ((vector, 1),))
            if inside > 1:
                index = Quotient(Index(0, ((vector, 1),)), inside)
            if n:
                index = Remainder(Index(0, ((index, 1),)), self._space.updates[d])
            found[d] = body.let(f"{name}{d}", index)
        return found

    def _entry(self, entry: int, position: dict[int, Expression]) -> Index:
        """Return the index of an entry of the index vector at a position of batch dimensions."""
        at = [position[d] for d in self._space.batch_dims]
        return entry_index(self._shape, self._vector, entry, at)

    def _index(self, element_at: Index) -> Expression:
        """Return the entry at an index."""
        return load_entry(self._shape, self._buffers.indices, element_at)

    def _read_vector(self) -> None:
        """Read an index vector and go on where the window fits."""
        fits: Expression | None = None
        for d, (size, entry) in enumerate(
            zip(self._space.sizes, self._space.scattered, strict=True)
        ):
            if entry < 0:
                continue
            start = self._body.let(f"start{d}", self._index(self._entry(entry, self._position)))
            self._starts[d] = start
            inside = fits_within(start, size - self._space.extent(d))
            fits = inside if fits is None else condition("bit_and", fits, inside)
        if fits is not None:
            self._open(Branch(self._body, fits))

    def _update(self) -> None:
        """Combine the updates of all arrays at the indices of all loops."""
        space, body, position = self._space, self._body, self._position
        element_at = []
        for d, dims in enumerate(zip(space.window, space.batch, strict=True)):
            terms: list[Expression] = [self._starts[d]] if d in self._starts else []
            terms += [position[each] for each in dims if each >= 0]
            element_at.append(Index(0, tuple((term, 1) for term in terms)))
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


def entry_index(indices: Shape, vector: int, entry: int, at: Sequence[Expression]) -> Index:
    """Return the index of an entry of the index vector at a position of its batch dimensions.

    `vector` is the dimension of the vectors, the rank where their entries are alone.
    """
    element_at = list(at)
    if vector < indices.rank:
        element_at.insert(vector, Index(entry))
    return flat_index(element_at, indices.dimensions)


def load_entry(indices: Shape, memory: Buffer, at: Index) -> Expression:
    """Return the entry at an index, of which those beyond the range of i64 are its largest."""
    kind = indices.element_type
    number = load_element(kind, memory, at)
    if kind.bit_width == 64 and not kind.is_signed_integer:
        # Entries beyond the range of signed numbers are outside of every array.
        number = Apply("minimum", (number, Const(Type.U64, (2**63 - 1,))), Type.U64)
    return integer_op("to_i64", number)


def fits_within(start: Expression, last: int) -> Expression:
    """Return whether a window begins at 0 to `last`."""
    return condition("bit_and", condition("ge", start, 0), condition("le", start, last))


def flat_index(position: Sequence[Expression], sizes: Sequence[int]) -> Index:
    """Return the number of an element in a dense array."""
    constant, terms = 0, []
    for d, index in enumerate(position):
        stride, number = math.prod(sizes[d + 1 :]), known(index)
        if number is None:
            terms.append((index, stride))
        else:
            constant += number * stride
    return Index(constant, tuple(terms))
