"""Offsets in the arena: the lowest that no other value has at any point of a value's lifetime."""

from collections.abc import Iterable, Iterator

from xla_server.buffers.intervals import Intervals
from xla_server.ir.checkpoints import checkpoint


class ArenaAllocator:
    """Memory in use at each point from -1 to before `end`, in a segment tree over the points.

    A node stands for a range of points; 1 is the root, and 2n and 2n + 1 are the halves of n. A
    lifetime is divided into few nodes. Memory in use is kept as intervals, so values next to each
    other cost no more than one, and an allocation takes logarithmic time unless gaps are too small.
    """

    def __init__(self, end: int) -> None:
        self._leaves = 1 << end.bit_length()
        # Memory in use at all points of a node, and at any of them.
        self._throughout: dict[int, Intervals] = {}
        self._within: dict[int, Intervals] = {}

    def allocate(
        self, size: int, lifetime: Iterable[tuple[int, int]], apart: Iterable[tuple[int, int]]
    ) -> tuple[int, int]:
        """Return begin and end of the lowest free memory that is also outside of `apart`."""
        checkpoint()
        nodes = [node for interval in lifetime for node in self._nodes(*interval)]
        above = {node >> bits for node in nodes for bits in range(1, node.bit_length())}
        used = [self._within[node] for node in nodes if node in self._within]
        used += [self._throughout[node] for node in above if node in self._throughout]
        used.append(others := Intervals())
        if not size:
            return 0, 0
        for interval in apart:
            if interval[0] < interval[1]:
                others.add(*interval)
        offset, previous = 0, -1
        while offset != previous:
            previous = offset
            for intervals in used:
                offset = intervals.first_gap(offset, size)
        span = offset, offset + size
        for node in nodes:
            self._throughout.setdefault(node, Intervals()).add(*span)
        for node in above.union(nodes):
            self._within.setdefault(node, Intervals()).add(*span)
        return span

    def _nodes(self, begin: int, end: int) -> Iterator[int]:
        """Yield the fewest nodes that stand for the points from `begin` to before `end`."""
        first, last = begin + 1 + self._leaves, end + 1 + self._leaves
        while first < last:
            if first & 1:
                yield first
                first += 1
            if last & 1:
                last -= 1
                yield last
            first, last = first >> 1, last >> 1
