"""A block of direct convolution by register tiles, as one function that kernels share.

It copies the block's part of the input, with padding, if windows leave the input, and has the loops
around the tiles, for any sizes. There are three spatial dimensions; missing ones have size 1.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from numba import njit

from xla_server.codegen.compiler.shared_functions import PythonFunction, call_at
from xla_server.codegen.instructions.intrinsics import select
from xla_server.codegen.instructions.memory import clear_bytes, copy_bytes
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.routine import (
    Count,
    Function,
    Offset,
    Read,
    Update,
    Write,
    routine_of,
)


class SpatialSizes(NamedTuple):
    """A spatial dimension: sizes, and positions of windows and results.

    The input has `size` positions; windows begin at `start` and then every `step`; a box that is
    copied has `extent` positions. The result has `whole` positions, of which `results` are
    computed, from `first` on, `apart` from each other.
    """

    size: Count
    start: Count
    step: Count
    extent: Count
    whole: Count
    results: Count
    first: Count
    apart: Count


class SpatialDimensions(NamedTuple):
    """The spatial dimensions, with strides of input and result positions in bytes."""

    outer: SpatialSizes
    middle: SpatialSizes
    inner: SpatialSizes
    pixel: Offset
    to_place: Offset


class Features(NamedTuple):
    """Groups of features, and the panels of each: `panels` of `columns`, then one of `rest`.

    Strides, in bytes, of input, weights and results between groups and between panels;
    `rest_weights` is the offset of the last panel. A row of weights has `row` bytes, in the last
    panel `rest_row`.
    """

    groups: Count
    group_read: Offset
    group_weights: Offset
    group_written: Offset
    panels: Count
    columns: Count
    panel_read: Offset
    panel_weights: Offset
    panel_written: Offset
    rest: Count
    rest_weights: Offset
    row: Offset
    rest_row: Offset


class TapLoop(NamedTuple):
    """A loop of a sum: strides of an iteration, in bytes of the input and in rows of weights."""

    iterations: Count
    over: Offset
    down: Count


class Sums(NamedTuple):
    """The row of weights that a sum begins with, and its loops, the outermost first."""

    first_row: Count
    loop0: TapLoop
    loop1: TapLoop
    loop2: TapLoop
    loop3: TapLoop


class Tiles(NamedTuple):
    """Tiles of a row of results: `tall_count` of `tall` rows, then `low_count` with a row less.

    A row of a tile has `positions`, the last one those before `end`, which is no bound if rows have
    one position each. The functions for both, and for both of the last panel.
    """

    positions: Count
    end: Count
    tall: Count
    tall_count: Count
    low_count: Count
    tile: Function
    low_tile: Function
    rest_tile: Function
    low_rest_tile: Function


def _products(n: Mapping[str, int]) -> float:
    row = n["tiles.tall"] * n["tiles.tall_count"]
    row += (n["tiles.tall"] - 1) * n["tiles.low_count"]
    results = n["high"] * n["space.middle.results"] * row
    columns = n["features.panels"] * n["features.columns"] + n["features.rest"]
    iterations = math.prod(n[f"sums.loop{loop}.iterations"] for loop in range(4))
    return results * n["features.groups"] * columns * iterations


def _block(
    source: Read, weights: Read, result: Update,
    # Memory for a copy of the block's input; 0 to read the input itself.
    box: Write,
    # The block's first result along the first and the last dimension, and how many along the first.
    image: Count, down: Count, across: Count, high: Count,
    space: SpatialDimensions, features: Features, sums: Sums, tiles: Tiles,
) -> None:  # fmt: skip
    outer, middle, inner, pixel, to_place = space
    first_row, loop0, loop1, loop2, loop3 = sums
    at0 = outer.start + down * outer.step
    at2 = inner.start + across * inner.step
    row = (image * outer.size + at0) * middle.size + middle.start
    base = source + (row * inner.size + at2) * pixel
    if box != 0:
        base = box
        _lay_out(
            box, source + image * (outer.size * middle.size * inner.size * pixel),
            at0, at2, outer, middle, inner, pixel,
        )  # fmt: skip
    into0 = image * outer.whole + outer.first + down * outer.apart
    into1 = into0 * middle.whole + middle.first
    into = result + (into1 * inner.whole + inner.first + across * inner.apart) * to_place
    step = inner.step * pixel
    ahead = inner.apart * to_place
    for group in range(0, features.groups):
        for panel in range(0, features.panels + min(features.rest, 1)):
            is_whole = panel < features.panels
            there = select(is_whole, features.columns, features.rest)
            pitch = select(is_whole, features.row, features.rest_row)
            start = select(is_whole, panel * features.panel_weights, features.rest_weights)
            right = weights + group * features.group_weights + start + first_row * pitch
            function = select(is_whole, tiles.tile, tiles.rest_tile)
            low_function = select(is_whole, tiles.low_tile, tiles.low_rest_tile)
            read = base + group * features.group_read + panel * features.panel_read
            written = into + group * features.group_written + panel * features.panel_written
            for y in range(0, high):
                for z in range(0, middle.results):
                    line = y * outer.step * middle.extent + z * middle.step
                    left = read + line * inner.extent * pixel
                    to_line = y * outer.apart * middle.whole + z * middle.apart
                    to = written + to_line * inner.whole * to_place
                    for x in range(0, tiles.tall_count + tiles.low_count):
                        is_tall = x < tiles.tall_count
                        first = x * tiles.tall - select(is_tall, 0, x - tiles.tall_count)
                        last = first + tiles.tall - select(is_tall, 1, 2)
                        number = first * tiles.positions
                        call_at(
                            select(is_tall, function, low_function),
                            left + number * step, right, to + number * ahead,
                            step * tiles.positions, ahead * tiles.positions,
                            min(there, tiles.end - last * tiles.positions),
                            loop0.iterations, loop0.over, loop0.down * pitch,
                            loop1.iterations, loop1.over, loop1.down * pitch,
                            loop2.iterations, loop2.over, loop2.down * pitch,
                            loop3.iterations, loop3.over, loop3.down * pitch,
                        )  # fmt: skip


@njit(error_model="numpy")
def _lay_out(  # type: ignore[no-untyped-def]
    box, image, at0, at2, outer, middle, inner, pixel
):
    """Copy a part of the input from a position on, with zeros outside of the input."""
    to = box
    low = max(min(0 - at2, inner.extent), 0)
    high = max(min(inner.size - at2, inner.extent), low)
    for y in range(at0, at0 + outer.extent):
        for z in range(middle.start, middle.start + middle.extent):
            if y >= 0 and y < outer.size and z >= 0 and z < middle.size:
                clear_bytes(to, low * pixel)
                copy_bytes(
                    to + low * pixel,
                    image + ((y * middle.size + z) * inner.size + at2 + low) * pixel,
                    (high - low) * pixel,
                )
                clear_bytes(to + high * pixel, (inner.extent - high) * pixel)
            else:
                clear_bytes(to, inner.extent * pixel)
            to = to + inner.extent * pixel


BLOCK = routine_of("direct_block", _block, _products)
"""Computes a block of a convolution."""

DIRECT_BLOCK: dict[str, Any] = {BLOCK.name: PythonFunction(BLOCK, _block, Effort.UNOPTIMISED)}
"""The function by its name in kernels."""
