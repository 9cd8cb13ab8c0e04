"""Reduction of the elements under a window: directly, or from partial results.

Adjacent windows share partial results. A window of 64 elements needs 63 operations; combined from
windows of 8, each computed once and shared by 8 others, it needs 14. Every result is a tree over
exactly the elements under its window, and the tree is the same at every position. No result is the
difference of two others, so sums are at least as accurate as sums in sequence, and do not depend on
how positions are cut into blocks.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence

TAP = 2
"""Cost of one operand of a combination, its load and the operation, in additions."""

PASS = 5
"""Cost per element of another level, its store and its loop, in additions."""

MAX_RATIO = 8
"""Bound on the values of one level that are combined to one of the next."""

MAX_LEVELS = 3
"""Bound on the levels between elements and windows, and so on the time to search them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tap:
    """An operand of a combination: the value of `source` that is `offset` positions ahead.

    Source 0 has the elements, source k the values of level k.
    """

    source: int
    offset: int


@dataclasses.dataclass(frozen=True, slots=True)
class Level:
    """Values at `length` adjacent positions, each combined from `taps`."""

    taps: tuple[Tap, ...]
    length: int


@dataclasses.dataclass(frozen=True, slots=True)
class Spacing:
    """Storage of the elements under a block of `length` windows that are `stride` apart.

    A window has `size` elements, `dilation` apart. Elements are stored by phase (position modulo
    stride), so that elements at one offset in adjacent windows are adjacent. A block has `span`
    elements, of which each phase has `row`.
    """

    size: int
    stride: int
    dilation: int
    length: int

    @property
    def span(self) -> int:
        """Elements from the first one of the first window to the last one of the last window."""
        return (self.length - 1) * self.stride + (self.size - 1) * self.dilation + 1

    @property
    def row(self) -> int:
        """Elements stored for each phase."""
        return -(-self.span // self.stride)

    def offset(self, element: int) -> int:
        """Return the storage index of an element of the first window."""
        step, phase = divmod(element * self.dilation, self.stride)
        return phase * self.row + step

    @property
    def unit(self) -> int | None:
        """Elements between adjacent positions of a level; None if windows cannot share levels."""
        if self.stride == 1:
            return 1
        return self.stride if self.dilation == 1 else None


@functools.lru_cache(maxsize=1024)
def levels_of(spacing: Spacing, *, is_idempotent: bool) -> tuple[Level, ...]:
    """Return the levels of least cost that reduce windows; the last has the results.

    An idempotent operation may combine an element more than once.
    """
    best = min(
        _widths(spacing),
        key=lambda widths: _cost(spacing, widths, is_idempotent=is_idempotent),
    )
    return _levels(spacing, best, is_idempotent=is_idempotent)


def _widths(spacing: Spacing) -> Iterator[tuple[int, ...]]:
    """Yield the possible window sizes of the intermediate levels, smallest level first."""
    yield ()
    unit = spacing.unit
    if unit is None:
        return
    for count in range(1, MAX_LEVELS + 1):
        for ratios in itertools.product(range(2, MAX_RATIO + 1), repeat=count - 1):
            for first in range(1 if unit > 1 else 2, MAX_RATIO + 1):
                widths = tuple(itertools.accumulate((first * unit, *ratios), int.__mul__))
                if widths[-1] < spacing.size:
                    yield widths


def _cost(spacing: Spacing, widths: Sequence[int], *, is_idempotent: bool) -> int:
    whole = len(_cover(spacing, spacing.size, widths, is_idempotent=is_idempotent))
    before, total = 1, TAP * whole
    for width in widths:
        total += TAP * (width // before) + PASS
        before = width
    return total


def _cover(
    spacing: Spacing, size: int, widths: Sequence[int], *, is_idempotent: bool
) -> list[tuple[int, int]]:
    """Return the (source, first element) of each operand of a window of `size`."""
    found, at = [], 0
    for number in reversed(range(len(widths))):
        while at + widths[number] <= size:
            found.append((number + 1, at))
            at += widths[number]
        rest = size - widths[number]
        if is_idempotent and found and at < size and rest % (spacing.unit or 1) == 0:
            found.append((number + 1, rest))
            return found
    return found + [(0, element) for element in range(at, size)]


def _levels(spacing: Spacing, widths: Sequence[int], *, is_idempotent: bool) -> tuple[Level, ...]:
    def taps(
        size: int, known: Sequence[int], skipped: int = 0, *, may_overlap: bool = False
    ) -> tuple[Tap, ...]:
        """Return the taps of a level that reads levels of the sizes `known`, after `skipped`."""
        cover = _cover(spacing, size, known, is_idempotent=may_overlap)
        return tuple(
            Tap(skipped + source, element * spacing.dilation // spacing.stride)
            if source
            else Tap(0, spacing.offset(element))
            for source, element in cover
        )

    # Each level reads the one before it.
    before = [(), *((width,) for width in widths)]
    made = [taps(width, before[n], n - 1) for n, width in enumerate(widths)]
    made.append(taps(spacing.size, widths, may_overlap=is_idempotent))
    lengths = [0] * len(made)
    lengths[-1] = spacing.length
    for number in reversed(range(1, len(made))):
        for tap in made[number]:
            if tap.source:
                least = tap.offset + lengths[number]
                lengths[tap.source - 1] = max(lengths[tap.source - 1], least)
    return tuple(Level(own, length) for own, length in zip(made, lengths, strict=True))
