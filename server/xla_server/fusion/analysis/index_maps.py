"""Evaluations of instructions by a kernel, at indices that are functions of its result's indices.

Readers at the same index share an evaluation. Slices, pads, concatenates and others read at another
index, which is another evaluation.
"""

import collections
import dataclasses
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from xla_contract.types.opcode import Opcode
from xla_server.fusion.analysis.fusible import ONE_TO_ONE
from xla_server.ir.analysis.affine import Affine, Computed, Modulus, Quotient, variable
from xla_server.ir.analysis.index_maps import MAPPED, operand_index
from xla_server.ir.module import HloComputation, HloInstruction


@dataclasses.dataclass(frozen=True, eq=False)
class IndexDependence:
    """The dependences of an index of which only the bounds are known.

    `loops` are the instructions whose own loops it changes in. `terms` is the size of its code:
    twice that of the longest index it depends on.
    """

    loops: frozenset[HloInstruction]
    terms: int


class Evaluation(NamedTuple):
    """An element of an instruction that a kernel computes, where `guard` holds if there is one."""

    kernel: HloInstruction
    indices: tuple[Affine, ...]
    guard: Affine | None

    @property
    def loops(self) -> frozenset[HloInstruction]:
        """The reductions and windows in whose loops the element is computed."""
        return _loops(self.indices)

    @property
    def terms(self) -> int:
        """Return the number of terms of the longest index."""
        return max(map(_terms, self.indices), default=0)


class IndexMaps:
    """Follows the evaluation of an instruction to those of its operands."""

    def __init__(self) -> None:
        self._made: dict[Hashable, tuple[Affine, ...]] = {}

    def start(self, kernel: HloInstruction, dimensions: tuple[int, ...]) -> Evaluation:
        """Return the evaluation of a kernel's result, or of each result of these dimensions."""
        return Evaluation(kernel, self._indices((kernel, dimensions), dimensions), None)

    def read(self, reader: HloInstruction, number: int, at: Evaluation) -> Evaluation:
        """Return the evaluation of operand `number` for an evaluation of its reader."""
        if not reader.operands[number].shape.rank:
            return at._replace(indices=())
        if reader.opcode in ONE_TO_ONE and reader.shape.rank == reader.operands[number].shape.rank:
            return at
        if reader.opcode in MAPPED:
            return at._replace(indices=operand_index(reader, at.indices))
        if reader.opcode is Opcode.REDUCE:
            return at._replace(indices=self._reduced(reader, at))
        return self._elsewhere(reader, number, at)

    def _reduced(self, reader: HloInstruction, at: Evaluation) -> tuple[Affine, ...]:
        sizes, reduced = reader.operands[0].shape.dimensions, reader.attributes.dimensions
        inner = self._indices((reader, at), sizes, at.indices, reader)
        kept = iter(at.indices)
        return tuple(inner[d] if d in reduced else next(kept) for d in range(len(sizes)))

    def _elsewhere(self, reader: HloInstruction, number: int, at: Evaluation) -> Evaluation:
        """Return the evaluation of an operand at an unknown index that depends on the reader's."""
        own = reader if reader.opcode is Opcode.REDUCE_WINDOW else None
        key, guard = (reader, number, at), at.guard
        if reader.opcode not in (Opcode.DYNAMIC_SLICE, Opcode.GATHER):
            (guard,) = self._indices((*key, "guard"), (2,), at.indices, own)
        sizes = reader.operands[number].shape.dimensions
        return Evaluation(at.kernel, self._indices(key, sizes, at.indices, own), guard)

    def _indices(
        self,
        key: Hashable,
        sizes: tuple[int, ...],
        parts: Sequence[Affine] = (),
        own: HloInstruction | None = None,
    ) -> tuple[Affine, ...]:
        """Return one index for each key, of which only the dependence on `parts` is known.

        It changes in the loops of `own` and in those of `parts`.
        """
        found = self._made.get(key)
        if found is None:
            loops = _loops(parts) if own is None else _loops(parts) | {own}
            depends = IndexDependence(loops, max(1, 2 * max(map(_terms, parts), default=0)))
            found = tuple(variable(Computed(depends, 0, size - 1)) for size in sizes)
            self._made[key] = found
        return found


def _loops(index: Sequence[Affine]) -> frozenset[HloInstruction]:
    atoms = (atom for position in index for atom in position.atoms())
    nodes = (atom.node for atom in atoms if isinstance(atom, Computed))
    return frozenset[HloInstruction]().union(
        *(node.loops for node in nodes if isinstance(node, IndexDependence))
    )


def _terms(index: Affine) -> int:
    """Count the terms of an index with those of its quotients and moduli, each time they occur."""
    count = 0
    for atom, _ in index.terms:
        if isinstance(atom, Quotient | Modulus):
            count += _terms(atom.operand)
        elif isinstance(atom, Computed):
            assert isinstance(atom.node, IndexDependence)
            count += atom.node.terms
    return count


def copies(evaluations: Iterable[Evaluation]) -> int:
    """Return the largest number of these evaluations in one loop of one kernel."""
    counts = collections.Counter((each.kernel, each.loops) for each in evaluations)
    return max(counts.values(), default=0)


def scalars(computation: HloComputation) -> dict[HloInstruction, int]:
    """Return how many elements of each instruction a kernel computes per element of the root."""
    maps, root = IndexMaps(), computation.root
    found: dict[HloInstruction, set[Evaluation]] = {i: set() for i in computation.instructions}
    for result in computation.results:
        found[result].add(maps.start(root, result.shape.dimensions))
    for i in reversed(computation.instructions):
        if i.opcode is not Opcode.TUPLE:
            for number, operand in enumerate(i.operands):
                found[operand] |= {maps.read(i, number, at) for at in found[i]}
    return {i: len(evaluations) for i, evaluations in found.items()}
