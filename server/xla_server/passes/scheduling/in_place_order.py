"""Instruction order in which arrays are updated without a copy."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from xla_contract.types.opcode import Opcode
from xla_server.ir.analysis.side_effects import is_effectful
from xla_server.ir.module import SEQUENTIAL_CALLERS, HloComputation, HloInstruction, HloModule
from xla_server.passes.scheduling.alias_analysis import (
    AliasedBuffer,
    Overwrite,
    Storage,
    storage_of,
)
from xla_server.passes.scheduling.list_scheduling import SoftDependence, schedule

MAX_PEAK_GROWTH = 1 / 8
"""Largest growth of the estimated peak memory, as a fraction of it. The growth must also not exceed
the bytes that the new order no longer copies."""

_SET_SIZE = 4096
"""Writers per pass of the reachability analysis, which takes one bit of each per instruction: 512
bytes per instruction."""


@dataclasses.dataclass(frozen=True)
class InPlaceOrder:
    """Schedules the readers of an array before the instruction that overwrites it.

    A dynamic-update-slice, a scatter, a while, and the instruction that computes the next state of
    a loop body copy an array that is read later. Where no dependence forbids it, its readers come
    first and there is no copy. If overwrites exclude each other, the smallest array is copied.
    Otherwise the order is stable, and the order of side effects never changes.

    Peak memory is estimated for both orders. While it grows by more than `MAX_PEAK_GROWTH` or by
    more than the bytes saved, the smaller half of the arrays is given up.
    """

    name: str = "in-place-order"

    def apply(self, module: HloModule) -> bool:
        """Reorder computations that run instruction by instruction; return whether any changed."""
        effects: dict[HloComputation, bool] = {}
        for computation in module.computations:
            effects[computation] = any(_has_effect(i, effects) for i in computation.instructions)
        bodies = {i.called[0] for i in module.instructions() if i.opcode is Opcode.WHILE}
        storages: dict[HloComputation, Storage] = {}
        peaks: dict[HloComputation, int] = {}
        changed = False
        for computation in module.sequential():
            storage = storage_of(computation, storages, is_loop_body=computation in bodies)
            storages[computation] = storage
            orders = _Orders(storage, peaks, is_entry=computation is module.entry)
            improved = orders.improved(
                [i for i in computation.instructions if _has_effect(i, effects)]
            )
            if improved is not None:
                computation.instructions = improved
                changed = True
            if computation is not module.entry:
                peaks[computation] = orders.peak(computation.instructions)
        return changed


def _has_effect(i: HloInstruction, effects: Mapping[HloComputation, bool]) -> bool:
    return is_effectful(i) or any(effects[called] for called in i.called)


class _Orders:
    """Copied bytes and peak memory of orders of a computation; `peaks` has its callees' peaks."""

    def __init__(
        self, storage: Storage, peaks: Mapping[HloComputation, int], *, is_entry: bool
    ) -> None:
        self._storage = storage
        self._peaks = peaks
        self._is_entry = is_entry
        self._instructions = storage.computation.instructions
        self._order = _Order(self._instructions, storage.readers)
        self._stored = self._order.positions
        live_out = set(storage.outputs)
        self._overwrites = [
            o
            for o in storage.overwrites
            if o.old not in live_out and o.old.definer.opcode is not Opcode.CONSTANT
        ]
        # Instruction -> the overwrites in the computations that it calls.
        self._inside: dict[HloInstruction, list[Overwrite]] = {}
        for o in self._overwrites:
            if o.new is None:
                self._inside.setdefault(o.writer, []).append(o)

    def improved(self, effects: Sequence[HloInstruction]) -> list[HloInstruction] | None:
        """Return an order with fewer copies that keeps the order of `effects`; None without one."""
        missed = [o for o in self._overwrites if not self._order.is_in_place(o)]
        if not missed:
            return None
        predecessors = self._predecessors(effects)
        infeasible = self._infeasible(missed, predecessors)
        if len(infeasible) == len(missed):
            return None
        wanted = sorted(set(self._overwrites) - infeasible, key=self._priority)
        copied, peak = self._copied_bytes(self._order), self.peak(self._instructions)
        while wanted:
            numbers = schedule(predecessors, [self._soft_dependence(each) for each in wanted])
            order = [self._instructions[number] for number in numbers]
            saved = copied - self._copied_bytes(_Order(order, self._storage.readers))
            growth = self.peak(order) - peak
            if saved >= 0 and growth <= min(saved, peak * MAX_PEAK_GROWTH):
                return order if order != self._instructions else None
            wanted = wanted[(len(wanted) + 1) // 2 :]
        return None

    def peak(self, order: Sequence[HloInstruction]) -> int:
        """Return the most bytes live at once, without arguments, constants and reused operands."""
        placed = _Order(order, self._storage.readers)
        reused = {
            o.new: o.old
            for o in self._overwrites
            if o.new is not None and not self._is_fixed(o.old) and placed.is_in_place(o)
        }
        kept = {*self._storage.outputs, *reused.values()}
        dying: dict[HloInstruction, list[AliasedBuffer]] = {}
        counted: set[AliasedBuffer] = set()
        live = top = 0
        for i in order:
            for buffer in self._storage.defined.get(i, ()):
                old = reused.get(buffer)
                if buffer.is_given or (old is not None and old not in counted):
                    continue
                counted.add(buffer)
                if old is None:
                    live += buffer.byte_size
                if buffer not in kept:
                    last = max(self._readers(buffer), key=placed.positions.__getitem__, default=i)
                    dying.setdefault(last, []).append(buffer)
            top = max(top, live + self._inner_peak(i, placed))
            live -= sum(buffer.byte_size for buffer in dying.get(i, ()))
        return top

    def _inner_peak(self, i: HloInstruction, order: "_Order") -> int:
        """Return the peak of an instruction's callees, with the copies of its operands."""
        if i.opcode not in SEQUENTIAL_CALLERS:
            return 0
        copies = sum(o.old.byte_size for o in self._inside.get(i, ()) if not order.is_in_place(o))
        return copies + max(self._peaks[called] for called in i.called)

    def _readers(self, buffer: AliasedBuffer) -> Sequence[HloInstruction]:
        return self._storage.readers.get(buffer, ())

    def _is_fixed(self, buffer: AliasedBuffer) -> bool:
        """Return whether a buffer is an argument, which is overwritten only if it is donated."""
        return self._is_entry and buffer.definer.opcode is Opcode.PARAMETER

    def _copied_bytes(self, order: "_Order") -> int:
        return sum(
            o.old.byte_size
            for o in self._overwrites
            if not self._is_fixed(o.old) and not order.is_in_place(o)
        )

    def _priority(self, overwrite: Overwrite) -> tuple[int, int, int]:
        """Return the sort key of an overwrite: bytes saved (0 for arguments), size, position."""
        size = overwrite.old.byte_size
        saved = 0 if self._is_fixed(overwrite.old) else size
        return saved, size, self._stored[overwrite.writer]

    def _soft_dependence(self, overwrite: Overwrite) -> SoftDependence:
        writer = self._stored[overwrite.writer]
        others = {self._stored[reader] for reader in self._readers(overwrite.old)} - {writer}
        return SoftDependence(writer, tuple(sorted(others)), self._priority(overwrite))

    def _predecessors(self, effects: Sequence[HloInstruction]) -> list[list[int]]:
        """Return the positions that each depends on: operands, control, side effects."""
        stored = self._stored
        predecessors = [
            {stored[part] for part in (*i.operands, *i.control_predecessors)}
            for i in self._instructions
        ]
        for first, second in itertools.pairwise(effects):
            predecessors[stored[second]].add(stored[first])
        return [sorted(numbers) for numbers in predecessors]

    def _infeasible(
        self, missed: Sequence[Overwrite], predecessors: Sequence[Sequence[int]]
    ) -> set[Overwrite]:
        """Return the overwrites whose writer some reader of the old array depends on."""
        found: set[Overwrite] = set()
        for begin in range(0, len(missed), _SET_SIZE):
            part = missed[begin : begin + _SET_SIZE]
            writers = dict.fromkeys(self._stored[o.writer] for o in part)
            bits = {writer: 1 << n for n, writer in enumerate(writers)}
            # For each instruction the set of writers that it is or depends on.
            reached = [0] * len(predecessors)
            for n, numbers in enumerate(predecessors):
                total = bits.get(n, 0)
                for number in numbers:
                    total |= reached[number]
                reached[n] = total
            for overwrite in part:
                writer = self._stored[overwrite.writer]
                # Readers are in stored order, and only those after the writer may depend on it.
                later = itertools.takewhile(
                    lambda number, writer=writer: number > writer,  # type: ignore[misc]
                    (self._stored[r] for r in reversed(self._readers(overwrite.old))),
                )
                if any(reached[number] & bits[writer] for number in later):
                    found.add(overwrite)
        return found


class _Order:
    """The positions of instructions in one order, and those of the last readers of buffers."""

    def __init__(
        self, order: Sequence[HloInstruction], readers: Mapping[AliasedBuffer, list[HloInstruction]]
    ) -> None:
        self.positions = {i: n for n, i in enumerate(order)}
        self._readers = readers
        self._last: dict[AliasedBuffer, int] = {}

    def is_in_place(self, overwrite: Overwrite) -> bool:
        """Return whether no reader of the old array comes after the writer."""
        last = self._last.get(overwrite.old)
        if last is None:
            # Computed once per buffer: thousands of loops may overwrite the same one.
            readers = self._readers.get(overwrite.old, ())
            last = max((self.positions[reader] for reader in readers), default=-1)
            self._last[overwrite.old] = last
        return last <= self.positions[overwrite.writer]
