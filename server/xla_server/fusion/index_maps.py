"""At which indices a kernel computes an instruction, as functions of the indices of its result.

Readers that ask for the same element share it. Slices, pads, concatenates and others ask for
another, which is computed once more.
"""

import collections
import dataclasses
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from xla_contract.opcode import Opcode
from xla_server.fusion.fusible import ONE_TO_ONE
from xla_server.ir.index_maps import MAPPED, operand_index
from xla_server.ir.module import HloComputation, HloInstruction


@dataclasses.dataclass(frozen=True, eq=False)
class IndexValue:
    """An index of a kernel, or something computed from its indices; each is made once.

    `loops` are the instructions whose own loops it changes in. `depth` is how many computations of
    indices from others are nested in it.
    """

    loops: frozenset[HloInstruction]
    depth: int = 0


class Term(NamedTuple):
    """The index variable * factor + offset."""

    variable: IndexValue
    factor: int
    offset: int

    def moved(self, start: int, stride: int) -> "Term":
        """Return start + self * stride."""
        return Term(self.variable, self.factor * stride, self.offset * stride + start)


class Place(NamedTuple):
    """Where a kernel computes an instruction: at an index, as far as what is guarded is needed."""

    kernel: HloInstruction
    indices: tuple[Term, ...]
    guard: IndexValue | None

    @property
    def loops(self) -> frozenset[HloInstruction]:
        """The instructions in whose loops the place is."""
        return frozenset[HloInstruction]().union(*(term.variable.loops for term in self.indices))

    @property
    def depth(self) -> int:
        """Return how deeply computations of indices from other indices are nested in this index."""
        return max((term.variable.depth for term in self.indices), default=0)


class IndexMaps:
    """Follows places from readers to their operands."""

    def __init__(self) -> None:
        self._variables: dict[Hashable, IndexValue] = {}
        self._zero = Term(IndexValue(frozenset()), 0, 0)

    def start(self, kernel: HloInstruction, rank: int) -> Place:
        """The place of a kernel's result, or of each of its results of so many dimensions."""
        index = (self._term((kernel, rank, d), ()) for d in range(rank))
        return Place(kernel, tuple(index), None)

    def read(self, reader: HloInstruction, number: int, place: Place) -> Place:
        """The place of an operand of a reader at a place."""
        operand, index = reader.operands[number], place.indices
        if not operand.shape.rank:
            return place._replace(indices=())
        if reader.opcode in ONE_TO_ONE:
            return place
        if reader.opcode in MAPPED:
            return place._replace(indices=operand_index(reader, index))
        if reader.opcode is Opcode.RESHAPE:
            return place._replace(indices=self._reshaped(reader, index))
        if reader.opcode is Opcode.REDUCE:
            return place._replace(indices=self._reduced(reader, place))
        return self._elsewhere(reader, number, place)

    def _reduced(self, reader: HloInstruction, place: Place) -> tuple[Term, ...]:
        kept = iter(place.indices)
        return tuple(
            self._term((reader, place, d), place.indices, reader)
            if d in reader.attributes.dimensions
            else next(kept)
            for d in range(reader.operands[0].shape.rank)
        )

    def _elsewhere(self, reader: HloInstruction, number: int, place: Place) -> Place:
        """Where nothing is known but that it depends on the reader's place."""
        own = reader if reader.opcode is Opcode.REDUCE_WINDOW else None
        guard = place.guard
        if reader.opcode in (Opcode.CONCATENATE, Opcode.PAD, Opcode.REDUCE_WINDOW):
            guard = self._variable((reader, number, place), place.indices, own)
        rank = reader.operands[number].shape.rank
        index = (self._term((reader, number, place, d), place.indices, own) for d in range(rank))
        return Place(place.kernel, tuple(index), guard)

    def _reshaped(self, reader: HloInstruction, index: tuple[Term, ...]) -> tuple[Term, ...]:
        """Dimensions that are kept have their index; those made of others, one made of theirs."""
        found = [self._zero] * reader.operands[0].shape.rank
        for old, new in _groups(reader.operands[0].shape.dimensions, reader.shape.dimensions):
            if len(old) == len(new) == 1:
                found[old[0]] = index[new[0]]
                continue
            terms = tuple(index[d] for d in new)
            sizes = tuple(reader.operands[0].shape.dimensions[d] for d in old)
            for n, d in enumerate(old):
                found[d] = self._term((terms, sizes, n), terms)
        return tuple(found)

    def _term(
        self, key: Hashable, parts: Sequence[Term], own: HloInstruction | None = None
    ) -> Term:
        return Term(self._variable(key, parts, own), 1, 0)

    def _variable(
        self, key: Hashable, parts: Sequence[Term], own: HloInstruction | None
    ) -> IndexValue:
        found = self._variables.get(key)
        if found is None:
            loops = frozenset(() if own is None else (own,))
            depth = 1 + max((part.variable.depth for part in parts), default=-1)
            found = IndexValue(loops.union(*(part.variable.loops for part in parts)), depth)
            self._variables[key] = found
        return found


def copies(places: Iterable[Place]) -> int:
    """How often one loop of one kernel computes what is needed at these places."""
    counts = collections.Counter((place.kernel, place.loops) for place in places)
    return max(counts.values(), default=0)


def scalars(computation: HloComputation) -> dict[HloInstruction, int]:
    """How many elements of each instruction a kernel computes for one of the root."""
    maps, root = IndexMaps(), computation.root
    places: dict[HloInstruction, set[Place]] = {i: set() for i in computation.instructions}
    for result in root.operands if root.opcode is Opcode.TUPLE else (root,):
        places[result].add(maps.start(root, result.shape.rank))
    for i in reversed(computation.instructions):
        if i.opcode is not Opcode.TUPLE:
            for number, operand in enumerate(i.operands):
                places[operand] |= {maps.read(i, number, place) for place in places[i]}
    return {i: len(found) for i, found in places.items()}


def _groups(old: tuple[int, ...], new: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
    """The shortest runs of dimensions with the same number of elements; those of 1 left out."""
    found: list[tuple[list[int], list[int]]] = []
    left = [d for d, size in enumerate(old) if size != 1]
    right = [d for d, size in enumerate(new) if size != 1]
    while left:
        group = [left.pop(0)], [right.pop(0)]
        elements = [old[group[0][0]], new[group[1][0]]]
        while elements[0] != elements[1]:
            side = int(elements[0] > elements[1])
            d = (left, right)[side].pop(0)
            group[side].append(d)
            elements[side] *= (old, new)[side][d]
        found.append(group)
    return found
