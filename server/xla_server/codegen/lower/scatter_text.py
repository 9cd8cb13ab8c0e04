"""The text of a scatter's kernel: loops over the updates, and what is done with each."""

import dataclasses
import math
from collections.abc import Sequence

from xla_contract.dimension_numbers import ScatterDimensionNumbers
from xla_contract.element_type import ElementType
from xla_contract.shape import Shape
from xla_server.codegen.loops.element_text import load_text, store_text
from xla_server.codegen.loops.scalar_text import ScalarText
from xla_server.codegen.loops.stopping import SPAN, span_of, stop_lines
from xla_server.codegen.lower.scatter_space import Blocks, Division, Ranges, Space

_LISTED = 1024
"""Index vectors that are looked through before those found are done."""


@dataclasses.dataclass(frozen=True, slots=True)
class Buffers:
    """Names and element types of what a kernel reads and writes; `word` is "" for none."""

    indices: str
    results: tuple[tuple[str, ElementType], ...]
    updates: tuple[tuple[str, ElementType], ...]
    word: str


class ScatterText:
    """A kernel over these buffers while it is written.

    `combined` computes from old{n} and new{n} what is stored.
    """

    def __init__(
        self,
        space: Space,
        numbers: ScatterDimensionNumbers,
        indices: Shape,
        buffers: Buffers,
        combined: ScalarText,
    ) -> None:
        self._space = space
        self._vector = numbers.index_vector_dim
        self._indices = indices
        self._buffers = buffers
        self._combined = combined
        self._lines: list[str] = []
        self._depth = 1

    def text(self, argument_count: int, division: Division) -> str:
        """All of it."""
        names = range(argument_count)
        self._add(*(f"b{n} = peek_i64(buffers, {n})" for n in names))
        if isinstance(division, Ranges):
            self._write_ranges(division)
        else:
            self._write_blocks(division)
        head = [*self._combined.constants, "def kernel(buffers, start, stop):"]
        return "\n".join([*head, *self._lines]) + "\n"

    def _add(self, *lines: str) -> None:
        self._lines += ["    " * self._depth + line for line in lines]

    def _open(self, head: str) -> None:
        self._add(head)
        self._depth += 1

    def _look(self) -> None:
        self._lines += stop_lines(self._depth, self._buffers.word)

    def _write_blocks(self, division: Blocks | None) -> None:
        """All updates of a trip's block, in order.

        An index vector is read in the innermost loop that it depends on.
        """
        sizes, batch_dims = self._space.updates, self._space.batch_dims
        split, block = (division.dimension, division.size) if division else (-1, 1)
        self._open("for t in range(start, stop):")
        if not batch_dims:
            self._read_vector()
        looking, turns = -1, 1
        if self._buffers.word:
            looking, turns = span_of([block if d == split else n for d, n in enumerate(sizes)])
        for dimension, size in enumerate(sizes):
            low, high = self._whole(dimension)
            if dimension == split:
                low, high = f"t * {block}", f"minimum((t + 1) * {block}, i64({size}))"
            self._open_loop(dimension, low, high, turns if dimension == looking else 0)
            if batch_dims and dimension == batch_dims[-1]:
                self._read_vector()
        self._update()

    def _open_loop(self, dimension: int, low: str, high: str, turns: int) -> None:
        """A loop along an update dimension that looks every so many turns, never for 0."""
        if turns:
            self._open(f"for begin in range({low}, {high}, {turns}):")
            self._look()
            low, high = "begin", f"minimum(begin + {turns}, i64({high}))"
        self._open(f"for u{dimension} in range({low}, {high}):")

    def _whole(self, dimension: int) -> tuple[str, str]:
        """The bounds of an update dimension, of the last one so that its loop is not written out.

        Copies of a trip are no vectors: of eight neighbours they take nearly three times as long.
        """
        size = self._space.updates[dimension]
        is_last = dimension == len(self._space.updates) - 1
        return "0", f"i64({size})" if is_last and size > 1 else str(size)

    def _write_ranges(self, division: Ranges) -> None:
        """The index vectors whose updates are in a trip's part of the result, in order.

        They are listed first: a branch for each would be guessed wrongly as often as not. What
        does not fit is found out later.
        """
        space, vectors = self._space, self._space.vectors
        listed = min(max(1, SPAN // space.window_elements), _LISTED, vectors)
        self._add(f"own = room_for({8 * listed})")
        self._open("for t in range(start, stop):")
        self._open(f"for first in range(0, {vectors}, {listed}):")
        if self._buffers.word:
            self._look()
        self._list_own(division, listed)
        self._open("for k in range(count):")
        self._add("found = kept_i64(own, k)", *self._coordinates("found", "u"))
        self._read_vector()
        sizes = [space.updates[d] for d in space.window_dims]
        looking, turns = span_of(sizes) if self._buffers.word and listed == 1 and sizes else (-1, 1)
        for number, d in enumerate(space.window_dims):
            self._open_loop(d, *self._whole(d), turns if number == looking else 0)
        self._update()

    def _list_own(self, division: Ranges, listed: int) -> None:
        """Of so many index vectors, from number `first` on, the `count` that are a trip's."""
        space = self._space
        self._add("count = 0")
        self._open(f"for v in range(first, minimum(first + {listed}, i64({space.vectors}))):")
        entry = space.scattered[division.dimension]
        entries = sum(each >= 0 for each in space.scattered)
        place = f"v * {entries} + {entry}" if entries > 1 else "v"
        if self._vector < self._indices.rank - 1:
            self._add(*self._coordinates("v", "c"))
            place = self._index_place(entry, "c")
        number = self._index(place)
        self._add(f"piece = shift_right_arithmetic({number}, i64({division.shift}))")
        self._add("keep_i64(own, count, v)")
        self._add(f"count = count + to_i64(eq(bit_and(piece, i64({division.trips - 1})), t))")
        self._depth -= 1

    def _coordinates(self, vector: str, name: str) -> list[str]:
        """The places along batch dimensions of the index vector of a number."""
        dims, lines = self._space.batch_dims, []
        for n, d in enumerate(dims):
            inside = math.prod(self._space.updates[d] for d in dims[n + 1 :])
            place = f"{vector} // {inside}" if inside > 1 else vector
            around = f" % {self._space.updates[d]}" if n else ""
            lines.append(f"{name}{d} = {place}{around}")
        return lines

    def _index_place(self, entry: int, name: str) -> str:
        """Where an entry of the index vector at places of this name is."""
        place = [f"{name}{n}" for n in self._space.batch_dims]
        if self._vector < self._indices.rank:
            place.insert(self._vector, str(entry))
        return flat_place(place, self._indices.dimensions)

    def _index(self, place: str) -> str:
        """The number that is there."""
        kind = self._indices.element_type
        number = load_text(kind, self._buffers.indices, place)
        if kind.bit_width == 64 and not kind.is_signed_integer:
            # What does not fit a signed number is in no array.
            number = f"minimum({number}, u64({2**63 - 1}))"
        return f"to_i64({number})"

    def _read_vector(self) -> None:
        """Read an index vector and go on where the window fits."""
        fits = ""
        for d, (size, entry) in enumerate(
            zip(self._space.sizes, self._space.scattered, strict=True)
        ):
            if entry < 0:
                continue
            self._add(f"start{d} = {self._index(self._index_place(entry, 'u'))}")
            limit = size - self._space.extent(d)
            inside = f"bit_and(ge(start{d}, i64(0)), le(start{d}, i64({limit})))"
            fits = f"bit_and({fits}, {inside})" if fits else inside
        if fits:
            self._open(f"if {fits}:")

    def _update(self) -> None:
        """Combine the update at the places of all loops."""
        space = self._space
        place = [
            _sum(
                f"start{d}" if space.scattered[d] >= 0 else "",
                f"u{w}" if w >= 0 else "",
                f"u{b}" if b >= 0 else "",
            )
            for d, (w, b) in enumerate(zip(space.window, space.batch, strict=True))
        ]
        own = [f"u{d}" for d in range(len(space.updates))]
        self._add(f"to = {flat_place(place, space.sizes)}")
        self._add(f"at = {flat_place(own, space.updates)}")
        for n, (base, kind) in enumerate(self._buffers.results):
            self._add(f"old{n} = {load_text(kind, base, 'to', 'reload')}")
        for n, (base, kind) in enumerate(self._buffers.updates):
            self._add(f"new{n} = {load_text(kind, base, 'at')}")
        self._add(*self._combined.lines)
        values = zip(self._buffers.results, self._combined.results, strict=True)
        self._add(*(store_text(kind, base, "to", value) for (base, kind), value in values))


def _sum(*terms: str) -> str:
    named = [term for term in terms if term]
    return f"({' + '.join(named)})" if named else "0"


def flat_place(place: Sequence[str], sizes: Sequence[int]) -> str:
    """The element's number in a dense array."""
    terms = [
        part if stride == 1 else f"{part} * {stride}"
        for d, part in enumerate(place)
        if part != "0" and (stride := math.prod(sizes[d + 1 :]))
    ]
    return " + ".join(terms) or "0"
