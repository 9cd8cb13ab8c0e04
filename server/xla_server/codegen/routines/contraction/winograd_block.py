"""A block of Winograd's tiles from input to result, as one function that kernels share.

It has the loops around the transforms and the register tiles, for any sizes.
"""

from typing import Any, NamedTuple

from numba import njit

from xla_server.codegen.compiler.shared_functions import PythonFunction, by_name, call_at
from xla_server.codegen.instructions.intrinsics import (
    bit_and,
    bit_not,
    ge,
    le,
    select,
    whole_div,
    whole_mod,
)
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
from xla_server.codegen.routines.contraction.winograd_transforms import (
    RESULTS,
    SIDE,
    TAPS,
    WINOGRAD_TRANSFORMS,
)

_SQUARE = SIDE * SIDE
_ELEMENTS = (RESULTS - 1) * SIDE + RESULTS
"""Elements of a tile's input from the one of its first result to that of its last, in row-major
order."""


GAP_BYTES = 64
"""Bytes between the weights of two points, a cache line. Without them points of 512 by 512 features
are 1 MiB apart, so that all 36 elements of a transform share one set of a cache."""

_transform_input: Any = WINOGRAD_TRANSFORMS["winograd_input"]
_transform_result: Any = WINOGRAD_TRANSFORMS["winograd_result"]


class Grid(NamedTuple):
    """Number of tiles in memory, in runs of `rows`, and tiles along both dimensions of an image.

    Panels of weights have `panel_columns`, but for the last.
    """

    block: Count
    rows: Count
    down: Count
    across: Count
    panel_columns: Count


class Image(NamedTuple):
    """Positions of the input and of the result, where windows begin, and features of both."""

    height: Count
    width: Count
    top_start: Count
    left_start: Count
    results_down: Count
    results_across: Count
    inputs: Count
    outputs: Count


class Taps(NamedTuple):
    """The weights in their own order: bytes to the first tap, and to the next each way."""

    first: Offset
    down: Offset
    across: Offset


def _block(
    # Numbers of the first tile, and of the one after the last.
    begin: Count, end: Count,
    source: Read, weights: Read, taps: Read, result: Update, memory: Write,
    grid: Grid, sizes: Image, steps: Taps,
    # Tiles for panels, and for the last one where that is narrower.
    tile: Function, narrow_tile: Function,
) -> None:  # fmt: skip
    block, rows, tiles_down, tiles_across, panel_columns = grid
    inputs, outputs = sizes.inputs, sizes.outputs
    pixel, to_pixel = 4 * inputs, 4 * outputs
    products = memory + _SQUARE * block * pixel
    staging = products + _SQUARE * block * to_pixel
    panels = whole_div(outputs + (panel_columns - 1), panel_columns)
    for number in range(begin, end):
        x = whole_mod(number, tiles_across) * RESULTS
        rest = whole_div(number, tiles_across)
        top = whole_mod(rest, tiles_down) * RESULTS + sizes.top_start
        image = whole_div(rest, tiles_down)
        left = x + sizes.left_start
        origin = source + ((image * sizes.height + top) * sizes.width + left) * pixel
        pitch = sizes.width * pixel
        inside_down = bit_and(ge(top, 0), le(top, sizes.height - SIDE))
        inside_across = bit_and(ge(left, 0), le(left, sizes.width - SIDE))
        if bit_not(bit_and(inside_down, inside_across)):
            _lay_out(staging, origin, top, left, sizes.height, sizes.width, pixel)
            origin = staging
            pitch = SIDE * pixel
        into = memory + (number - begin) * pixel
        step = block * pixel
        _transform_input(origin, pitch, pixel, into, SIDE * step, step, inputs)
    for k in range(0, _SQUARE):
        lefts = memory + k * block * pixel
        sums = products + k * block * to_pixel
        for panel in range(0, panels):
            column = panel * panel_columns
            columns = min(panel_columns, outputs - column)
            function = select(le(panel_columns, columns), tile, narrow_tile)
            right = weights + k * (inputs * to_pixel + GAP_BYTES) + column * pixel
            for run in range(0, whole_div(end - begin + rows - 1, rows)):
                call_at(
                    function, lefts + run * rows * pixel, right,
                    sums + run * rows * to_pixel + 4 * column, pixel, to_pixel, columns,
                    1, 0, 0, 1, 0, 0, 1, 0, 0, inputs, 4, 4 * columns,
                )  # fmt: skip
    for number in range(begin, end):
        x = whole_mod(number, tiles_across) * RESULTS
        rest = whole_div(number, tiles_across)
        y = whole_mod(rest, tiles_down) * RESULTS
        image = whole_div(rest, tiles_down)
        row = sizes.results_across * to_pixel
        into = result + (image * sizes.results_down + y) * row + x * to_pixel
        high = min(sizes.results_down - y, RESULTS)
        wide = min(sizes.results_across - x, RESULTS)
        is_whole = bit_and(ge(high, RESULTS), ge(wide, RESULTS))
        read = products + (number - begin) * to_pixel
        step = block * to_pixel
        is_not_finite = _transform_result(
            read, SIDE * step, step,
            select(is_whole, into, staging), select(is_whole, row, SIDE * to_pixel), to_pixel,
            outputs,
        )  # fmt: skip
        if is_not_finite:
            # All products were computed, so their inputs can be overwritten.
            top = y + sizes.top_start
            left = x + sizes.left_start
            origin = source + ((image * sizes.height + top) * sizes.width + left) * pixel
            _lay_out(memory, origin, top, left, sizes.height, sizes.width, pixel)
            for panel in range(0, panels):
                column = panel * panel_columns
                columns = min(panel_columns, outputs - column)
                function = select(le(panel_columns, columns), tile, narrow_tile)
                right = taps + steps.first + 4 * column
                # Sums at positions between the rows of the tile's results are computed, too, and
                # ignored.
                for run in range(0, whole_div(_ELEMENTS + rows - 1, rows)):
                    call_at(
                        function, memory + run * rows * pixel, right,
                        staging + run * rows * to_pixel + 4 * column, pixel, to_pixel, columns,
                        1, 0, 0, TAPS, SIDE * pixel, steps.down, TAPS, pixel, steps.across,
                        inputs, 4, to_pixel,
                    )  # fmt: skip
        if is_not_finite != 0 or not is_whole:
            for a in range(0, high):
                copy_bytes(into + a * row, staging + a * SIDE * to_pixel, wide * to_pixel)


@njit(error_model="numpy")
def _lay_out(  # type: ignore[no-untyped-def]
    to, origin, top, left, height, width, pixel
):
    """Copy a tile of the input, with zeros outside of the input."""
    low = min(max(0 - left, 0), SIDE)
    high = max(min(width - left, SIDE), low)
    clear_bytes(to, _SQUARE * pixel)
    for a in range(max(0 - top, 0), min(height - top, SIDE)):
        copy_bytes(
            to + (a * SIDE + low) * pixel,
            origin + (a * width + low) * pixel,
            (high - low) * pixel,
        )


BLOCK = routine_of(
    "winograd_block",
    _block,
    # Transforms of an input feature take the time of some products.
    lambda n: (n["end"] - n["begin"]) * _SQUARE * n["sizes.inputs"] * (n["sizes.outputs"] + 8),
)
"""Computes a block of tiles."""

WINOGRAD_BLOCK = by_name((PythonFunction(BLOCK, _block, Effort.UNOPTIMISED),))
"""The function by its name in kernels."""
