"""At which indices a kernel computes an instruction, as functions of the indices of its result.

Readers that need the same element share it. Slices, pads, concatenates and others need another,
which is computed once more.
"""

import collections
import dataclasses
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from xla_contract.opcode import Opcode
from xla_server.fusion.fusible import ONE_TO_ONE
from xla_server.ir.affine import Affine, Atom, Computed, Modulus, Quotient, variable
from xla_server.ir.index_maps import MAPPED, operand_index
from xla_server.ir.module import HloComputation, HloInstruction


@dataclasses.dataclass(frozen=True, eq=False)
class Source:
    """What an index depends on of which nothing but its bounds is known.

    `loops` are the instructions whose own loops it changes in. `depth` is how many computations of
    indices from others are nested in it.
    """

    loops: frozenset[HloInstruction]
    depth: int


class Place(NamedTuple):
    """Where a kernel computes an instruction: at an index, as far as what is guarded is needed."""

    kernel: HloInstruction
    indices: tuple[Affine, ...]
    guard: Affine | None

    @property
    def loops(self) -> frozenset[HloInstruction]:
        """The instructions in whose loops the place is."""
        return _loops(self.indices)

    @property
    def depth(self) -> int:
        """Return how deeply computations of indices from other indices are nested in this index."""
        return max(map(_depth, self.indices), default=0)


class IndexMaps:
    """Follows places from readers to their operands."""

    def __init__(self) -> None:
        self._made: dict[Hashable, tuple[Affine, ...]] = {}

    def start(self, kernel: HloInstruction, dimensions: tuple[int, ...]) -> Place:
        """Return the place of a kernel's result, or of each of its results of these dimensions."""
        return Place(kernel, self._indices((kernel, dimensions), dimensions), None)

    def read(self, reader: HloInstruction, number: int, place: Place) -> Place:
        """Return the place of operand `number` of a reader that is computed at a place."""
        if not reader.operands[number].shape.rank:
            return place._replace(indices=())
        if reader.opcode in ONE_TO_ONE:
            return place
        if reader.opcode in MAPPED:
            return place._replace(indices=operand_index(reader, place.indices))
        if reader.opcode is Opcode.REDUCE:
            return place._replace(indices=self._reduced(reader, place))
        return self._elsewhere(reader, number, place)

    def _reduced(self, reader: HloInstruction, place: Place) -> tuple[Affine, ...]:
        sizes, reduced = reader.operands[0].shape.dimensions, reader.attributes.dimensions
        inner = self._indices((reader, place), sizes, place.indices, reader)
        kept = iter(place.indices)
        return tuple(inner[d] if d in reduced else next(kept) for d in range(len(sizes)))

    def _elsewhere(self, reader: HloInstruction, number: int, place: Place) -> Place:
        """Return a place of which nothing is known but that it depends on the reader's place."""
        own = reader if reader.opcode is Opcode.REDUCE_WINDOW else None
        key, guard = (reader, number, place), place.guard
        if reader.opcode in (Opcode.CONCATENATE, Opcode.PAD, Opcode.REDUCE_WINDOW):
            (guard,) = self._indices((*key, "guard"), (2,), place.indices, own)
        sizes = reader.operands[number].shape.dimensions
        return Place(place.kernel, self._indices(key, sizes, place.indices, own), guard)

    def _indices(
        self,
        key: Hashable,
        sizes: tuple[int, ...],
        parts: Sequence[Affine] = (),
        own: HloInstruction | None = None,
    ) -> tuple[Affine, ...]:
        """Return one index for each key, of which it is only known that it depends on `parts`.

        It changes in the loops of `own` besides theirs.
        """
        found = self._made.get(key)
        if found is None:
            loops = _loops(parts) if own is None else _loops(parts) | {own}
            source = Source(loops, 1 + max(map(_depth, parts), default=-1))
            found = tuple(variable(Computed(source, 0, size - 1)) for size in sizes)
            self._made[key] = found
        return found


def _loops(index: Sequence[Affine]) -> frozenset[HloInstruction]:
    atoms = (atom for position in index for atom in position.atoms())
    sources = (atom.node for atom in atoms if isinstance(atom, Computed))
    return frozenset[HloInstruction]().union(
        *(source.loops for source in sources if isinstance(source, Source))
    )


def _depth(index: Affine) -> int:
    """Return how many computations from other indices are nested in an index.

    Quotients of quotients are one computation: a reshape has one for each dimension.
    """
    return max((_atom_depth(atom) for atom, _ in index.terms), default=0)


def _atom_depth(atom: Atom) -> int:
    if isinstance(atom, Quotient | Modulus):
        parts = (part for part, _ in atom.operand.terms)
        return 1 + max(_atom_depth(part) - isinstance(part, Quotient) for part in parts)
    assert isinstance(atom, Computed)
    assert isinstance(atom.node, Source)
    return atom.node.depth


def copies(places: Iterable[Place]) -> int:
    """Return how often one loop of one kernel computes what is needed at these places."""
    counts = collections.Counter((place.kernel, place.loops) for place in places)
    return max(counts.values(), default=0)


def scalars(computation: HloComputation) -> dict[HloInstruction, int]:
    """Return how many elements of each instruction a kernel computes for one of the root."""
    maps, root = IndexMaps(), computation.root
    places: dict[HloInstruction, set[Place]] = {i: set() for i in computation.instructions}
    for result in root.operands if root.opcode is Opcode.TUPLE else (root,):
        places[result].add(maps.start(root, result.shape.dimensions))
    for i in reversed(computation.instructions):
        if i.opcode is not Opcode.TUPLE:
            for number, operand in enumerate(i.operands):
                places[operand] |= {maps.read(i, number, place) for place in places[i]}
    return {i: len(found) for i, found in places.items()}
