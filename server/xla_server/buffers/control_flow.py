"""Control flow of code: its joins, and regions that no jump enters or leaves.

A loop or a conditional is a region: a range of thunks that runs on into its first thunk and out of
its last one. A value that no thunk of a region touches is live in all of it or in nothing, so its
liveness is found without a look at the region's thunks.
"""

import dataclasses
from collections.abc import Iterator, Sequence

from xla_server.buffers import code as thunk_ir


@dataclasses.dataclass(frozen=True, slots=True)
class ThunkRegion:
    """The thunks from `first` to `last`, and the joins among those that are in no inner region."""

    first: int
    last: int
    parent: "ThunkRegion | None"
    joins: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class FlowGraph:
    """The innermost region of each thunk, with one for the end, and the predecessors of joins.

    A join is a thunk that the one before it is not the only predecessor of; the predecessor of the
    first thunk is -1.
    """

    regions: list[ThunkRegion]
    predecessors: dict[int, list[int]]


def control_flow(thunks: Sequence[thunk_ir.Thunk]) -> FlowGraph:
    """Return the regions and joins of code."""
    jumps = list(_jumps(thunks))
    predecessors: dict[int, list[int]] = {0: [-1]}
    for n, thunk in enumerate(thunks):
        if isinstance(thunk, (thunk_ir.Jump, thunk_ir.Switch)):
            predecessors[n + 1] = []
    for source, target in jumps:
        predecessors.setdefault(target, [target - 1]).append(source)
    ranges = iter(sorted(_merged(jumps, len(thunks))))
    following = next(ranges, None)
    region: ThunkRegion | None = None
    regions: list[ThunkRegion] = []
    for n in range(len(thunks) + 1):
        while region and region.last < n:
            region = region.parent
        # No two ranges begin at one thunk.
        if following and following[0] == n:
            region = ThunkRegion(*following, region)
            following = next(ranges, None)
        assert region
        regions.append(region)
        if n in predecessors:
            region.joins.append(n)
    return FlowGraph(regions, predecessors)


def _merged(jumps: Sequence[tuple[int, int]], end: int) -> list[tuple[int, int]]:
    """Return the ranges that jumps span, those that overlap without one in the other as one."""
    found: list[tuple[int, int]] = []
    around = [(0, end)]
    for first, last in sorted((min(jump), max(jump)) for jump in jumps):
        while around[-1][1] < first:
            found.append(around.pop())
        while around and (around[-1][1] <= last or around[-1][0] == first):
            outer = around.pop()
            first, last = outer[0], max(last, outer[1])
        around.append((first, last))
    return found + around


def _jumps(thunks: Sequence[thunk_ir.Thunk]) -> Iterator[tuple[int, int]]:
    """Yield source and target of each jump."""
    labels = {thunk: n for n, thunk in enumerate(thunks) if isinstance(thunk, thunk_ir.Label)}
    for n, thunk in enumerate(thunks):
        yield from ((n, labels[label]) for label in thunk_ir.targets(thunk))
