"""Sets of integers as intervals, for the lifetimes of values and for spans of memory."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class Intervals:
    """A set of integers as disjoint half-open intervals that do not touch.

    The integers between bounds 2k and 2k + 1 are in the set. A query is a binary search.
    """

    __slots__ = ("_bounds",)

    def __init__(self) -> None:
        self._bounds: list[int] = []

    def __iter__(self) -> Iterator[tuple[int, int]]:
        bounds = iter(self._bounds)
        return zip(bounds, bounds, strict=True)

    def __len__(self) -> int:
        """Return the number of intervals."""
        return len(self._bounds) // 2

    def add(self, begin: int, end: int) -> None:
        """Add the integers from `begin` to before `end`, of which there is at least one."""
        bounds = self._bounds
        first, last = bisect_left(bounds, begin), bisect_right(bounds, end)
        bounds[first:last] = [begin][first % 2 :] + [end][last % 2 :]

    def overlaps(self, begin: int, end: int) -> bool:
        """Return whether any integer from `begin` to before `end` is in the set."""
        at = bisect_right(self._bounds, begin)
        return at % 2 == 1 or (at < len(self._bounds) and self._bounds[at] < end)

    def first_gap(self, begin: int, size: int) -> int:
        """Return the first of `size` consecutive integers from `begin` on that are not in it."""
        bounds = self._bounds
        at = bisect_right(bounds, begin)
        if at % 2:
            begin = bounds[at]
            at += 1
        while at < len(bounds) and bounds[at] - begin < size:
            begin = bounds[at + 1]
            at += 2
        return begin
