"""Multi-output fusion: kernels of several results, whose shared operands are read once."""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xla_contract.ops.control.fusion import FusionKind
from xla_contract.types.opcode import Opcode
from xla_server.fusion.analysis.fusible import is_fusible, is_trivial
from xla_server.fusion.analysis.index_maps import scalars
from xla_server.fusion.analysis.levels import ALIASES, levels_from_parameters, levels_from_root
from xla_server.fusion.analysis.row_maps import continues_rows, maps_rows
from xla_server.fusion.fused_body import FusedBody, replace
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.ir.traversal import reached
from xla_server.passes.framework.editor import Editor, drop_uncalled, users
from xla_server.passes.simplify.cse import CommonSubexpressions
from xla_server.target.capability import Capability
from xla_server.target.fusion_tuning import Fusions
from xla_server.target.target import Target


@dataclasses.dataclass(frozen=True)
class MultiOutputFusion:
    """Makes one fusion of loops over the same elements that read the same array, or each other.

    Siblings do not depend on each other: their longest paths from the parameters, or to the root,
    have the same number of kernels. A loop that reads another's result at its own index joins it if
    its path is longer by one: no other path leads from one to the other. So no cycle can arise.
    """

    target: Target
    name: str = "multi-output-fusion"

    def apply(self, module: HloModule) -> bool:
        """Fuse in the entry and in the computations of its loops and branches."""
        changed, tuning = False, self.target.tuning.fusions
        editor = Editor(module)
        for computation in module.sequential():
            for levels in (levels_from_parameters, levels_from_root):
                groups = _siblings(computation, levels(computation), self.target)
                changed |= _merge(module, computation, groups, editor)
            for _ in range(tuning.max_producer_rounds):
                if not _merge(module, computation, _chains(computation, self.target), editor):
                    break
                changed = True
        if changed:
            drop_uncalled(module)
            # Both parts of a kernel may have computed the same values.
            CommonSubexpressions().apply(module)
        return changed


def _is_loop(i: HloInstruction) -> bool:
    """Return whether an instruction is one loop nest with one result."""
    if not i.shape.is_array or not i.shape.element_count or i.control_predecessors:
        return False
    if i.opcode is Opcode.FUSION:
        return i.attributes.kind in (FusionKind.LOOP, FusionKind.INPUT)
    return is_fusible(i) and not is_trivial(i) and i.opcode not in ALIASES


class _Space(NamedTuple):
    """Iteration space of a loop nest; nests of one kernel must have equal ones."""

    kind: str
    dimensions: tuple[int, ...]
    reduced: tuple[int, ...] = ()


def _space(i: HloInstruction, capability: Capability) -> _Space:
    root = i.called[0].results[0] if i.opcode is Opcode.FUSION else i
    if root.opcode is Opcode.REDUCE:
        reduced = tuple(sorted(root.attributes.dimensions))
        return _Space("reduce", root.operands[0].shape.dimensions, reduced)
    # A window or a large transpose has a loop nest of another kind.
    is_own = root.opcode in (Opcode.REDUCE_WINDOW, Opcode.TRANSPOSE, Opcode.CONCATENATE)
    if is_own and not (capability.MOVES_RUNS and _keeps_runs(root)):
        return _Space(f"only {i.name}", root.shape.dimensions)
    return _Space("loop", root.shape.dimensions)


def _keeps_runs(i: HloInstruction) -> bool:
    """Return whether a transpose moves elements together with their neighbours."""
    last = i.shape.rank - 1
    return i.opcode is Opcode.TRANSPOSE and bool(i.attributes.permutation[last:] == (last,))


def _size(i: HloInstruction) -> int:
    """Return the number of instructions of a loop."""
    return len(i.called[0].instructions) if i.opcode is Opcode.FUSION else 1


def _scalars(i: HloInstruction) -> int:
    """Return the number of elements that a loop computes per element of its result."""
    if i.opcode is not Opcode.FUSION:
        return 1
    counts = scalars(i.called[0])
    return sum(count for part, count in counts.items() if part.opcode not in ALIASES)


def _siblings(
    computation: HloComputation, levels: Mapping[HloInstruction, int], target: Target
) -> list[list[HloInstruction]]:
    """Return groups of loops over one space, of one level, that read the same large array."""
    tuning = target.tuning.fusions
    groups: dict[tuple[int, _Space, HloInstruction], list[HloInstruction]] = {}
    taken: set[HloInstruction] = set()
    scalars_of = functools.cache(_scalars)
    for i in computation.instructions:
        if not _is_loop(i):
            continue
        space = _space(i, target.capability)
        least = math.prod(space.dimensions)
        for operand in dict.fromkeys(map(_origin, i.operands)):
            if operand.shape.is_array and operand.shape.element_count >= least:
                groups.setdefault((levels[i], space, operand), []).append(i)
    found = []
    for group in groups.values():
        if len(group) == 1:
            continue
        part: list[HloInstruction] = []
        size = count = 0
        for i in group:
            if i in taken:
                continue
            size, count = size + _size(i), count + scalars_of(i)
            is_long = size > tuning.max_instructions or count > tuning.max_scalars
            if is_long or len(part) == tuning.max_results:
                break
            part.append(i)
        if len(part) > 1:
            taken.update(part)
            found.append(part)
    return found


def _origin(operand: HloInstruction) -> HloInstruction:
    """Return the instruction whose buffer an operand is."""
    while operand.opcode is Opcode.RESHAPE:
        operand = operand.operands[0]
    return operand


def _chains(computation: HloComputation, target: Target) -> list[list[HloInstruction]]:
    """Return pairs of a loop and a reader of its result at the same index, one pair per level.

    With two pairs of one level, each might need the other's result.
    """
    levels, readers = levels_from_parameters(computation), users(computation)
    tuning = target.tuning.fusions
    found: dict[int, list[HloInstruction]] = {}
    taken: set[HloInstruction] = set()
    for reader in computation.instructions:
        for producer in map(_kernel_of, reader.operands):
            level = levels[producer]
            if (
                level in found
                or levels[reader] != level + 1
                or {reader, producer} & taken
                or not all(_is_loop(i) or _is_tuple_loop(i, readers[i]) for i in (producer, reader))
                or _results_of_both(producer, reader, readers) > tuning.max_results
                or not _continues(reader, producer, target)
            ):
                continue
            found[level] = [producer, reader]
            taken |= {producer, reader}
            break
    return list(found.values())


def _kernel_of(operand: HloInstruction) -> HloInstruction:
    return operand.operands[0] if operand.opcode is Opcode.GET_TUPLE_ELEMENT else operand


def _is_tuple_loop(i: HloInstruction, readers: Sequence[HloInstruction]) -> bool:
    """Return whether an instruction is one loop nest with several results, read by element."""
    return (
        i.opcode is Opcode.FUSION
        and i.attributes.kind is FusionKind.LOOP
        and i.shape.is_tuple
        and not i.control_predecessors
        and bool(readers)
        and all(reader.opcode is Opcode.GET_TUPLE_ELEMENT for reader in readers)
    )


def _results_of_both(
    producer: HloInstruction,
    reader: HloInstruction,
    readers: Mapping[HloInstruction, Sequence[HloInstruction]],
) -> int:
    """Return the number of results of a kernel that joins a loop and its reader."""
    parts = readers[producer] if producer.shape.is_tuple else (producer,)
    kept = sum(any(user is not reader for user in readers[part]) for part in parts)
    return kept + (len(readers[reader]) if reader.shape.is_tuple else 1)


def _continues(reader: HloInstruction, producer: HloInstruction, target: Target) -> bool:
    """Return whether a reader can be computed in its producer's loop."""
    tuning, capability = target.tuning.fusions, target.capability
    space = _space(reader, capability)
    if capability.FINISHES_REDUCTIONS and _goes_on_with_rows(reader, producer, tuning):
        return True
    if space.kind != "loop" or space != _space(producer, capability):
        return False
    size = _size(reader) + _size(producer)
    if size > tuning.max_instructions or _reads_alias(reader, producer):
        return False
    if reader.opcode is not Opcode.FUSION:
        return all(part.shape.dimensions == reader.shape.dimensions for part in reader.operands)
    (called,) = reader.called
    rows = {
        math.prod(inner.operands[0].shape.dimensions[d] for d in inner.attributes.dimensions)
        for inner in called.instructions
        if inner.opcode is Opcode.REDUCE
    }
    if len(rows) > 1:
        return False
    columns = rows.pop() if rows else None
    starts = [
        start
        for start, operand in zip(called.parameters, reader.operands, strict=True)
        if _kernel_of(operand) is producer
    ]
    if not all(maps_rows(called, start, columns) for start in starts):
        return False
    # Sums along rows would compute the producer again.
    counts = scalars(called)
    repeated = sum(counts[start] for start in starts)
    return _scalars(reader) + repeated * _scalars(producer) <= tuning.max_scalars


def _goes_on_with_rows(reader: HloInstruction, producer: HloInstruction, tuning: Fusions) -> bool:
    """Return whether one kernel can loop over the rows of both."""
    if _size(reader) + _size(producer) > tuning.max_instructions or _reads_alias(reader, producer):
        return False
    read = {part: part.shape.rank for part in reader.operands if _kernel_of(part) is producer}
    repeated = _scalars(reader) * _scalars(producer)
    return repeated <= tuning.max_scalars and continues_rows(
        reader, producer, read, tuning.max_column_elements
    )


def _reads_alias(reader: HloInstruction, producer: HloInstruction) -> bool:
    """Return whether a reader also reads its producer's result under another shape.

    Such a reshape would need the result of the fusion that reads it.
    """
    others = (part for part in reader.operands if _kernel_of(part) is not producer)
    return producer in reached(others, lambda part: part.operands if part.opcode in ALIASES else ())


def _merge(
    module: HloModule,
    computation: HloComputation,
    groups: Sequence[Sequence[HloInstruction]],
    editor: Editor,
) -> bool:
    """Make one fusion of each group, whose loops follow those they read."""
    if not groups:
        return False
    readers = users(computation)
    replaced: dict[HloInstruction, HloInstruction] = {}
    for group in groups:
        body = FusedBody(editor)
        inside: dict[HloInstruction, HloInstruction] = {}
        for i in group:
            results = body.fuse(i, inside)
            if i.shape.is_tuple:
                inside.update((part, results[part.attributes.index]) for part in readers[i])
            else:
                inside[i] = results[0]
        kept = [
            i for i in inside if i is computation.root or any(r not in group for r in readers[i])
        ]
        fused = body.fusion([inside[i] for i in kept], group[-1].name)
        replaced.update(zip(kept, fused, strict=True))
    replace(module, computation, replaced, editor)
    return True
