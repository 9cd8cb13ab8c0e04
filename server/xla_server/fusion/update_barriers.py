"""Barriers that keep a fusion from reading an array after its buffer was overwritten."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from xla_contract.types.opcode import Opcode
from xla_server.fusion.analysis.fusible import is_fusible
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.passes.framework.editor import Editor
from xla_server.passes.scheduling.alias_analysis import (
    AliasedBuffer,
    Overwrite,
    Storage,
    dependences,
    storage_of,
)
from xla_server.target.fusion_tuning import InPlaceUpdates
from xla_server.target.target import Target

MAX_UPDATES = 4096
"""Largest number of updates analysed in a computation: each takes a bit per instruction."""

Edge = tuple[HloInstruction, HloInstruction]
"""An operand and its reader."""


@dataclasses.dataclass(frozen=True)
class UpdateBarriers:
    """Puts an opt-barrier where a loop would read both an old array and its updated version.

    If `f(old)` is fused into an instruction that also depends on the update of `old`, the fusion
    reads `old` after the update, which therefore has to copy the array. Storing `f(old)` avoids
    this where it is smaller than the array, a slice for instance.
    """

    target: Target
    name: str = "update-barriers"

    def apply(self, module: HloModule) -> bool:
        """Add barriers to computations that run instruction by instruction."""
        storages: dict[HloComputation, Storage] = {}
        changed, tuning = False, self.target.tuning.in_place_updates
        for computation in module.sequential():
            storages[computation] = storage = storage_of(computation, storages)
            updates = _updates(storage, tuning.min_bytes)
            if not updates:
                continue
            arguments = set(storage.inputs) if computation is module.entry else set()
            analysis = _Analysis(storage, updates, arguments, tuning)
            edges = analysis.edges((1 << len(updates)) - 1)
            edges = analysis.edges(analysis.worthwhile(edges)) if edges else edges
            if edges:
                _insert(module, computation, edges)
                changed = True
        return changed


def _updates(storage: Storage, min_bytes: int) -> list[Overwrite]:
    """Return the last update of each array that is large and neither a result nor a constant."""
    live_out = set(storage.outputs)
    last: dict[AliasedBuffer, Overwrite] = {}
    for update in storage.overwrites:
        old = update.old
        is_constant = old.definer.opcode is Opcode.CONSTANT
        if old.byte_size >= min_bytes and old not in live_out and not is_constant:
            last[old] = update
    found = sorted(last.values(), key=lambda update: -update.old.byte_size)[:MAX_UPDATES]
    reached = dependences(storage.computation, [update.writer for update in found])
    return [
        update
        for n, update in enumerate(found)
        if not any(
            reached[reader] >> n & 1
            for reader in storage.readers[update.old]
            if reader is not update.writer
        )
    ]


class _Analysis:
    """Finds edges from values computed from an old array to readers that depend on its update.

    Sets of updates are bits of integers, numbered as in `updates`.
    """

    def __init__(
        self,
        storage: Storage,
        updates: Sequence[Overwrite],
        arguments: Collection[AliasedBuffer],
        tuning: InPlaceUpdates,
    ) -> None:
        self._tuning = tuning
        self._instructions = storage.computation.instructions
        self._updates = updates
        self._arguments = arguments
        self._after = dependences(storage.computation, [update.writer for update in updates])
        # Instruction -> the old arrays that it reads.
        self._own_reads: dict[HloInstruction, int] = {}
        for n, update in enumerate(updates):
            for reader in storage.readers[update.old]:
                if reader is not update.writer:
                    self._own_reads[reader] = self._own_reads.get(reader, 0) | 1 << n

    def edges(self, allowed: int) -> dict[Edge, int]:
        """Return the edges to cut for a set of updates, with those that each is cut for."""
        found: dict[Edge, int] = {}
        # Instruction -> the old arrays that a fusion with it as the root would read.
        fused: dict[HloInstruction, int] = {}
        for reader in self._instructions:
            total = self._own_reads.get(reader, 0) & allowed
            if is_fusible(reader):
                for operand in reader.operands:
                    updates = fused.get(operand, 0)
                    late = updates & self._after[reader] & ~self._after[operand]
                    if late:
                        edge = _before_broadcast((operand, reader), fused)
                        found[edge] = found.get(edge, 0) | late
                    else:
                        total |= updates
                fused[reader] = total
            elif reader.opcode in (Opcode.DOT, Opcode.CONVOLUTION):
                # A loop may be fused after it, but none before it.
                fused[reader] = total
        return found

    def worthwhile(self, edges: Mapping[Edge, int]) -> int:
        """Return the updates that store less at the edges than they save."""
        stored = [0] * len(self._updates)
        by_operand: dict[HloInstruction, int] = {}
        for (operand, _), updates in edges.items():
            by_operand[operand] = by_operand.get(operand, 0) | updates
        for operand, updates in by_operand.items():
            for n in _members(updates):
                stored[n] += operand.shape.byte_size
        return sum(
            1 << n for n, update in enumerate(self._updates) if stored[n] <= self._limit(update.old)
        )

    def _limit(self, old: AliasedBuffer) -> float:
        """Return the most bytes that may be stored to avoid the copy of an array."""
        is_argument, tuning = old in self._arguments, self._tuning
        return (tuning.max_stored_of_argument if is_argument else tuning.max_stored) * old.byte_size


def _members(bits: int) -> list[int]:
    """Return the numbers in a set."""
    text = np.frombuffer(bits.to_bytes(-(-bits.bit_length() // 8), "little"), np.uint8)
    found: list[int] = np.flatnonzero(np.unpackbits(text, bitorder="little")).tolist()
    return found


def _before_broadcast(edge: Edge, fused: Mapping[HloInstruction, int]) -> Edge:
    """Return an edge at which fewer bytes are stored: before a broadcast instead of after it."""
    operand, reader = edge
    while operand.opcode is Opcode.BROADCAST and fused.get(operand.operands[0]):
        operand, reader = operand.operands[0], operand
    return operand, reader


def _insert(module: HloModule, computation: HloComputation, edges: Mapping[Edge, int]) -> None:
    editor = Editor(module)
    barriers: dict[HloInstruction, HloInstruction] = {}
    for operand, reader in edges:
        if operand not in barriers:
            barriers[operand] = editor.add(Opcode.OPT_BARRIER, [operand])
        reader.operands = tuple(
            barriers[operand] if part is operand else part for part in reader.operands
        )
    computation.instructions = [
        part for i in computation.instructions for part in (i, barriers.get(i)) if part is not None
    ]
