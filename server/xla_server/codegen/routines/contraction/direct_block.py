"""A block of a convolution by tiles of registers, as one function that kernels share.

It lays out what the block reads of the input where windows leave that, and does the loops round the
tiles, for any sizes. There are three spatial dimensions; missing ones have size 1.
"""

import math
from collections.abc import Mapping
from typing import Any

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


def _products(n: Mapping[str, int]) -> float:
    results = n["high"] * n["results1"]
    results *= n["tall"] * n["tall_count"] + (n["tall"] - 1) * n["low_count"]
    features = n["groups"] * (n["panels"] * n["columns"] + n["rest"])
    return results * features * math.prod(n[f"iterations{loop}"] for loop in range(4))


def _block(
    source: Read, weights: Read, result: Update,
    # Memory for what the block reads of the input; 0 where that is read where it is.
    box: Write,
    # The block's first result along the first and the last dimension, and how many along the first.
    image: Count, down: Count, across: Count, high: Count,
    # The input, where its windows begin, positions from one to the next, and from position to
    # position.
    size0: Count, size1: Count, size2: Count, start0: Count, start1: Count, start2: Count,
    step0: Count, step1: Count, step2: Count, pixel: Offset,
    # Positions of what is read: of the box, or of the input.
    extent0: Count, extent1: Count, extent2: Count,
    # The whole result, where this phase's results lie in it and how far apart, and from position to
    # position.
    whole0: Count, whole1: Count, whole2: Count, first0: Count, first1: Count, first2: Count,
    apart0: Count, apart1: Count, apart2: Count, results1: Count, to_place: Offset,
    # Rows of a tile, how many of these there are along the last dimension, and behind those how
    # many with a row less.
    tall: Count, tall_count: Count, low_count: Count,
    # Groups, and from one to the next.
    groups: Count, group_read: Offset, group_weights: Offset, group_written: Offset,
    # Whole panels of weights and from one to the next, then the panel of what columns rest.
    panels: Count, columns: Count,
    panel_read: Offset, panel_weights: Offset, panel_written: Offset,
    rest: Count, rest_weights: Offset,
    # A row of weights in a panel and in the last one, and the row that sums begin with.
    row: Offset, rest_row: Offset, first_row: Count,
    # The loops of a sum: iterations, bytes on the left and rows of weights from one to the next.
    iterations0: Count, over0: Offset, down0: Count,
    iterations1: Count, over1: Offset, down1: Count,
    iterations2: Count, over2: Offset, down2: Count,
    iterations3: Count, over3: Offset, down3: Count,
    # Tiles, those with a row less, and both for the columns that rest.
    tile: Function, low_tile: Function, rest_tile: Function, low_rest_tile: Function,
) -> None:  # fmt: skip
    at0 = start0 + down * step0
    at2 = start2 + across * step2
    base = source + (((image * size0 + at0) * size1 + start1) * size2 + at2) * pixel
    if box != 0:
        base = box
        _lay_out(
            box, source + image * (size0 * size1 * size2 * pixel),
            at0, start1, at2, size0, size1, size2, extent0, extent1, extent2, pixel,
        )  # fmt: skip
    into0 = (image * whole0 + first0 + down * apart0) * whole1 + first1
    into = result + (into0 * whole2 + first2 + across * apart2) * to_place
    step = step2 * pixel
    ahead = apart2 * to_place
    for group in range(0, groups):
        for panel in range(0, panels + min(rest, 1)):
            is_whole = panel < panels
            there = select(is_whole, columns, rest)
            pitch = select(is_whole, row, rest_row)
            start = select(is_whole, panel * panel_weights, rest_weights)
            right = weights + group * group_weights + start + first_row * pitch
            function = select(is_whole, tile, rest_tile)
            low_function = select(is_whole, low_tile, low_rest_tile)
            read = base + group * group_read + panel * panel_read
            written = into + group * group_written + panel * panel_written
            for y in range(0, high):
                for z in range(0, results1):
                    left = read + (y * step0 * extent1 + z * step1) * extent2 * pixel
                    to = written + (y * apart0 * whole1 + z * apart1) * whole2 * to_place
                    for x in range(0, tall_count + low_count):
                        is_tall = x < tall_count
                        number = x * tall - select(is_tall, 0, x - tall_count)
                        call_at(
                            select(is_tall, function, low_function),
                            left + number * step, right, to + number * ahead,
                            step, ahead, there,
                            iterations0, over0, down0 * pitch, iterations1, over1, down1 * pitch,
                            iterations2, over2, down2 * pitch, iterations3, over3, down3 * pitch,
                        )  # fmt: skip


@njit(error_model="numpy")
def _lay_out(  # type: ignore[no-untyped-def]
    box, image,
    at0, at1, at2, size0, size1, size2, extent0, extent1, extent2, pixel,
):  # fmt: skip
    """Copy a part of the input from a position on, with zeros where it is outside."""
    to = box
    low = max(min(0 - at2, extent2), 0)
    high = max(min(size2 - at2, extent2), low)
    for y in range(at0, at0 + extent0):
        for z in range(at1, at1 + extent1):
            if y >= 0 and y < size0 and z >= 0 and z < size1:
                clear_bytes(to, low * pixel)
                copy_bytes(
                    to + low * pixel,
                    image + ((y * size1 + z) * size2 + at2 + low) * pixel,
                    (high - low) * pixel,
                )
                clear_bytes(to + high * pixel, (extent2 - high) * pixel)
            else:
                clear_bytes(to, extent2 * pixel)
            to = to + extent2 * pixel


BLOCK = routine_of("direct_block", _block, _products)
"""Computes a block of a convolution."""

DIRECT_BLOCK: dict[str, Any] = {BLOCK.name: PythonFunction(BLOCK, _block, Effort.UNOPTIMISED)}
"""The function by its name in kernels."""
