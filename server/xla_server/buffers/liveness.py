"""Liveness of values, and interference: values that are live together cannot share memory.

Lifetimes are intervals of points. Thunk n reads at point 2n and has written at point 2n + 1. Values
that exist before the first thunk are live at point -1.
"""

import dataclasses
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from xla_server.buffers import code as thunk_ir
from xla_server.buffers.control_flow import FlowGraph, control_flow
from xla_server.buffers.intervals import Intervals
from xla_server.ir.checkpoints import checkpoint


@dataclasses.dataclass(frozen=True, slots=True)
class Liveness:
    """The numbers of values, in order, and the points at which each needs its memory.

    Values whose lifetimes overlap interfere, and those of `apart`, by number. A thunk's written
    value is live while the thunk reads, unless the thunk may write over some of its operands: then
    the others are in `apart`.
    """

    numbers: dict[thunk_ir.Value, int]
    lifetimes: list[Intervals]
    apart: dict[int, set[int]]

    def is_live_after(self, value: thunk_ir.Value, n: int) -> bool:
        """Return whether thunk n + 1, or one that is executed later, needs the value."""
        lifetime = self.lifetimes[self.numbers[value]]
        return all(lifetime.overlaps(point, point + 1) for point in (2 * n + 1, 2 * n + 2))


def analyse(code: thunk_ir.Code) -> Liveness:
    """Compute the lifetimes of all values.

    Results are live after the last thunk, parameters and constants before the first one.
    """
    flow = control_flow(code.thunks)
    outside = (*code.parameters, *code.constants)
    reads = {value: list[int]() for value in (*outside, *code.results)}
    writes: dict[thunk_ir.Value, list[int]] = {}
    for n, thunk in enumerate(code.thunks):
        for value in thunk_ir.reads(thunk):
            reads.setdefault(value, []).append(n)
        for value in thunk_ir.writes(thunk):
            reads.setdefault(value, [])
            if not (isinstance(thunk, thunk_ir.KernelThunk) and value in thunk.updates):
                writes.setdefault(value, []).append(n)
    for value in dict.fromkeys(code.results):
        reads[value].append(len(code.thunks))
    numbers = {value: number for number, value in enumerate(reads)}
    lifetimes = [_lifetime(flow, at, writes.get(value, ())) for value, at in reads.items()]
    for value in outside:
        lifetimes[numbers[value]].add(-1, 0)
    apart: dict[int, set[int]] = {}
    for n, thunk in enumerate(code.thunks):
        overwritten = _overwritten(thunk)
        for value in thunk_ir.writes(thunk):
            number = numbers[value]
            may_overwrite = overwritten is None or value in overwritten
            lifetimes[number].add(2 * n + may_overwrite, 2 * n + 2)
            if isinstance(thunk, thunk_ir.KernelThunk) and overwritten and value in overwritten:
                for other in set(thunk.reads) - overwritten[value] - {value}:
                    separate(apart, number, numbers[other])
    return Liveness(numbers, lifetimes, apart)


def separate(apart: dict[int, set[int]], a: int, b: int) -> None:
    """Record that two values must not share memory."""
    apart.setdefault(a, set()).add(b)
    apart.setdefault(b, set()).add(a)


def _overwritten(thunk: thunk_ir.Thunk) -> dict[thunk_ir.Value, set[thunk_ir.Value]] | None:
    """Return the operands that each written value may share memory with; None is all of them."""
    if isinstance(thunk, thunk_ir.KernelThunk):
        allowed: dict[thunk_ir.Value, set[thunk_ir.Value]] = {}
        for target, source in thunk.in_place:
            allowed.setdefault(target, set()).add(source)
        return allowed
    if isinstance(thunk, thunk_ir.CollectiveThunk):
        return {} if thunk.is_referenced else None
    return None if isinstance(thunk, thunk_ir.CopyThunk) else {}


def _lifetime(flow: FlowGraph, reads: Sequence[int], writes: Sequence[int]) -> Intervals:
    """Return the points at which a value is live, by a walk backward from the thunks that read it.

    A step of the walk passes all thunks, inner regions included, back to the last one that touches
    the value, or to a join. Deeply nested regions take a step each.
    """
    checkpoint()
    after_touched = _after_touched(flow, sorted({*reads, *writes}))
    written = frozenset(writes)
    found = Intervals()
    waiting, seen = [*reads], set[int]()
    while waiting:
        n = waiting.pop()
        region = flow.regions[n]
        stops = (region.joins, after_touched.get(region.first, ()))
        begins = (points[at - 1] for points in stops if (at := bisect_right(points, n)))
        begin = max(begins, default=region.first)
        found.add(2 * begin, 2 * n + 1)
        if begin in seen:
            continue
        seen.add(begin)
        for before in flow.predecessors.get(begin, (begin - 1,)):
            found.add(2 * before + 1, 2 * before + 2)
            if before >= 0 and before not in written:
                waiting.append(before)
    return found


def _after_touched(flow: FlowGraph, touched: Iterable[int]) -> dict[int, list[int]]:
    """Return what comes after each thunk, or inner region, that touches a value.

    The keys are the first thunks of the regions that these are in.
    """
    found: dict[int, list[int]] = {}
    for n in touched:
        after, region = n + 1, flow.regions[n]
        while True:
            is_new = region.first not in found
            found.setdefault(region.first, []).append(after)
            if not is_new or region.parent is None:
                break
            after, region = region.last + 1, region.parent
    return found
