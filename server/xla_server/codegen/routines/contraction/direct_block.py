"""A block of a convolution by tiles of registers, as one function that kernels share.

It lays out what the block reads of the input where windows leave that, and does the loops round the
tiles, for any sizes. There are three spatial dimensions; missing ones have size 1.
"""

import math
from collections.abc import Mapping
from typing import Any

from numba import njit

from xla_server.codegen.compiler.shared_functions import PythonFunction
from xla_server.codegen.instructions.intrinsics import select
from xla_server.codegen.instructions.memory import clear_bytes, copy_bytes
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.routine import Parameter, Routine, Unit, parameters
from xla_server.codegen.routines.contraction.product_tiles import product_tile_at


def _products(n: Mapping[str, int]) -> float:
    results = n["high"] * n["results1"]
    results *= n["tall"] * n["tall_count"] + (n["tall"] - 1) * n["low_count"]
    features = n["groups"] * (n["panels"] * n["columns"] + n["rest"])
    return results * features * math.prod(n[f"iterations{loop}"] for loop in range(4))


BLOCK = Routine(
    "direct_block",
    (
        *parameters(Unit.READ, "source", "weights"),
        *parameters(Unit.UPDATE, "result"),
        # Memory for what the block reads of the input; 0 where that is read where it is.
        *parameters(Unit.WRITE, "box"),
        # The block's first result along the first and the last dimension, and how many along the
        # first.
        *parameters(Unit.COUNT, "image", "down", "across", "high"),
        # The input, where its windows begin, positions from one to the next, and from position to
        # position.
        *parameters(Unit.COUNT, "size0", "size1", "size2", "start0", "start1", "start2"),
        *parameters(Unit.COUNT, "step0", "step1", "step2"),
        *parameters(Unit.OFFSET, "pixel"),
        # Positions of what is read: of the box, or of the input.
        *parameters(Unit.COUNT, "extent0", "extent1", "extent2"),
        # The whole result, where this phase's results lie in it and how far apart, and from
        # position to position.
        *parameters(Unit.COUNT, "whole0", "whole1", "whole2", "first0", "first1", "first2"),
        *parameters(Unit.COUNT, "apart0", "apart1", "apart2", "results1"),
        *parameters(Unit.OFFSET, "to_place"),
        # Rows of a tile, how many of these there are along the last dimension, and behind those how
        # many with a row less.
        *parameters(Unit.COUNT, "tall", "tall_count", "low_count"),
        # Groups, and from one to the next.
        *parameters(Unit.COUNT, "groups"),
        *parameters(Unit.OFFSET, "group_read", "group_weights", "group_written"),
        # Whole panels of weights and from one to the next, then the panel of what columns rest.
        *parameters(Unit.COUNT, "panels", "columns"),
        *parameters(Unit.OFFSET, "panel_read", "panel_weights", "panel_written"),
        *parameters(Unit.COUNT, "rest"),
        *parameters(Unit.OFFSET, "rest_weights"),
        # A row of weights in a panel and in the last one, and the row that sums begin with.
        *parameters(Unit.OFFSET, "row", "rest_row"),
        *parameters(Unit.COUNT, "first_row"),
        # The loops of a sum: iterations, bytes on the left and rows of weights from one to the
        # next.
        *(
            Parameter(f"{name}{loop}", unit)
            for loop in range(4)
            for name, unit in (
                ("iterations", Unit.COUNT),
                ("over", Unit.OFFSET),
                ("down", Unit.COUNT),
            )
        ),
        # Tiles, those with a row less, and both for the columns that rest.
        *parameters(Unit.FUNCTION, "tile", "low_tile", "rest_tile", "low_rest_tile"),
    ),
    cost=_products,
)
"""Computes a block of a convolution."""


def _block(  # type: ignore[no-untyped-def]
    source, weights, result, box,
    image, down, across, high,
    size0, size1, size2, start0, start1, start2, step0, step1, step2, pixel,
    extent0, extent1, extent2,
    whole0, whole1, whole2, first0, first1, first2, apart0, apart1, apart2,
    results1, to_place,
    tall, tall_count, low_count,
    groups, group_read, group_weights, group_written,
    panels, columns, panel_read, panel_weights, panel_written,
    rest, rest_weights,
    row, rest_row, first_row,
    iterations0, over0, down0, iterations1, over1, down1,
    iterations2, over2, down2, iterations3, over3, down3,
    tile, low_tile, rest_tile, low_rest_tile,
):  # fmt: skip
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
                        product_tile_at(
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


DIRECT_BLOCK: dict[str, Any] = {BLOCK.name: PythonFunction(BLOCK, _block, Effort.UNOPTIMISED)}
"""The function by its name in kernels."""
