"""Tiles of reduce-windows: the windows that a work item computes, and the elements under them.

A tile's elements are on the stack, in the order of its axes, each axis by phase (`Spacing`). They
are reduced along one axis after the other, so a window over several dimensions costs the sum of its
sizes, not their product.
"""

import dataclasses
import math
from collections.abc import Sequence

from xla_contract.types.dimension_numbers import WindowDimension
from xla_server.codegen.schedules.nests.window_levels import Level, Spacing, levels_of
from xla_server.target.loop_tuning import WindowTiles


@dataclasses.dataclass(frozen=True, slots=True)
class WindowAxis:
    """A dimension, or merged dimensions without windows: `size` positions, `base` elements."""

    size: int
    base: int
    window: WindowDimension

    @property
    def is_covered(self) -> bool:
        """Return whether windows along the axis are more than single elements."""
        return self.window != WindowDimension(1)


@dataclasses.dataclass(frozen=True, slots=True)
class TiledAxis:
    """An axis cut into `blocks` of `length` positions; the last may overlap the one before it."""

    axis: WindowAxis
    length: int

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return -(-self.axis.size // self.length)

    @property
    def spacing(self) -> Spacing:
        """Storage of the elements under a block's windows."""
        window = self.axis.window
        return Spacing(window.size, window.stride, window.window_dilation, self.length)

    @property
    def pitch(self) -> int:
        """Number of elements stored along the axis."""
        return self.spacing.stride * self.spacing.row

    @property
    def is_clipped(self) -> bool:
        """Return whether blocks may include padding, around or between elements."""
        window, last = self.axis.window, self.axis.size - self.length
        first = -window.padding_low
        end = last * window.stride + first + self.spacing.span
        return first < 0 or end > self.axis.base or window.base_dilation > 1

    @property
    def is_whole(self) -> bool:
        """Return whether a tile has the whole axis, without windows."""
        return self.blocks == 1 and not self.axis.is_covered

    @property
    def elements(self) -> float:
        """The mean number of elements of a block."""
        window = self.axis.window
        total = 0
        for block in range(min(self.blocks, 256)):
            low = min(block * self.length, self.axis.size - self.length)
            origin = low * window.stride - window.padding_low
            step = window.base_dilation
            end = min(self.axis.base, max(0, -(-(origin + self.spacing.span) // step)))
            total += max(0, end - max(0, -(-origin // step)))
        return total / min(self.blocks, 256)


@dataclasses.dataclass(frozen=True, slots=True)
class AxisPass:
    """The reduction of a tile along one axis, by levels."""

    axis: int
    levels: tuple[Level, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class WindowTile:
    """The axes of a tile, and the passes over it in order."""

    axes: tuple[TiledAxis, ...]
    passes: tuple[AxisPass, ...]

    @property
    def count(self) -> int:
        """The number of tiles."""
        return math.prod(axis.blocks for axis in self.axes)


def tile_of(
    axes: Sequence[WindowAxis], width: int, tuned: WindowTiles, *, is_idempotent: bool
) -> WindowTile | None:
    """Return the tile for elements of `width` bytes; None if windows are too large for one."""
    positions = math.prod(axis.size for axis in axes)
    share = max(tuned.min_tile_bytes, positions * width // tuned.min_tiles)
    aimed = min(tuned.tile_bytes, share) // width
    segment = tuned.segment_bytes
    while segment >= tuned.min_segment_bytes:
        tiled = _cut(axes, aimed, segment // width)
        segment //= 2
        if math.prod(axis.pitch for axis in tiled) * width > tuned.max_stack_bytes:
            # The search for levels, linear in the window's elements, is skipped for such tiles.
            continue
        tile = WindowTile(tiled, _passes(tiled, is_idempotent=is_idempotent))
        if stack_elements(tile, tuned.short_row) * width <= tuned.max_stack_bytes:
            most = max(len(level.taps) for each in tile.passes for level in each.levels)
            return tile if most <= tuned.max_taps else None
    return None


def _cut(axes: Sequence[WindowAxis], aimed: int, segment: int) -> tuple[TiledAxis, ...]:
    """Cut axes so that a tile has about `aimed` elements.

    Axes inside of the first one with windows are cut to `segment` elements.
    """
    covered = [number for number, axis in enumerate(axes) if axis.is_covered]
    tiled: list[TiledAxis] = []
    inner = 1
    for number in reversed(range(len(axes))):
        axis = axes[number]
        window = axis.window
        is_first = number <= covered[0]
        limit = (aimed if is_first else min(aimed, segment)) // inner
        length = (limit - window.dilated_size) // window.stride + 1
        if axis.is_covered:
            # Adjacent tiles then load at most half of their elements twice.
            length = max(length, 2 * (window.dilated_size // window.stride))
        length = max(1, min(axis.size, length))
        length = -(-axis.size // -(-axis.size // length))
        tiled.append(TiledAxis(axis, length))
        inner *= tiled[-1].pitch
    return tuple(reversed(tiled))


def _passes(axes: Sequence[TiledAxis], *, is_idempotent: bool) -> tuple[AxisPass, ...]:
    """Return the passes, the one that shrinks the tile most first."""
    found = [
        AxisPass(number, levels_of(axis.spacing, is_idempotent=is_idempotent))
        for number, axis in enumerate(axes)
        if axis.axis.window.size > 1
    ]
    return tuple(sorted(found, key=lambda each: axes[each.axis].length / axes[each.axis].pitch))


def stack_elements(tile: WindowTile, short_row: int) -> int:
    """Return the number of elements on the stack, for the tile and all levels."""
    pitches = [axis.pitch for axis in tile.axes]
    total = math.prod(pitches)
    for each in tile.passes:
        inner = math.prod(pitches[each.axis + 1 :])
        is_flat = is_flat_pass(pitches, each, short_row)
        for level in each.levels:
            kept = pitches[each.axis] if is_flat else level.length
            total += math.prod(pitches[: each.axis]) * kept * inner
        if not is_flat:
            pitches[each.axis] = each.levels[-1].length
    return total


def is_flat_pass(pitches: Sequence[int], each: AxisPass, short_row: int) -> bool:
    """Return whether a pass runs over short rows and the gaps between them in one loop."""
    row = each.levels[-1].length * math.prod(pitches[each.axis + 1 :])
    return row < short_row and math.prod(pitches[: each.axis]) > 1
