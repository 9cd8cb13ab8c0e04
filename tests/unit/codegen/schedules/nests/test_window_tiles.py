"""Tiles of windows: how large they are, and what they cover."""

import math

import pytest

from xla_contract.types.dimension_numbers import WindowDimension
from xla_server.codegen.schedules.nests import window_tiles
from xla_server.codegen.schedules.nests.window_tiles import (
    TiledAxis,
    WindowAxis,
    WindowTile,
    stack_elements,
    tile_of,
)
from xla_server.target.loop_tuning import WindowTiles

TUNED = WindowTiles()
PLAIN = WindowDimension(1)


def _tile(*axes: WindowAxis, width: int = 4) -> WindowTile:
    tile = tile_of(axes, width, TUNED, is_idempotent=False)
    assert tile is not None
    return tile


def _over(base: int, window: WindowDimension) -> WindowAxis:
    return WindowAxis(window.output_size(base), base, window)


def test_one_row_is_cut_into_equal_tiles_of_the_cache() -> None:
    (axis,) = _tile(_over(1 << 20, WindowDimension(15))).axes
    assert axis.pitch * 4 <= TUNED.tile_bytes
    assert axis.blocks * axis.length - axis.axis.size < axis.blocks


def test_short_rows_share_a_tile() -> None:
    rows, columns = _tile(WindowAxis(5000, 5000, PLAIN), _over(30, WindowDimension(4))).axes
    assert columns.blocks == 1
    assert 50 < rows.length < 5000


def test_rows_under_one_window_are_in_one_tile() -> None:
    rows, columns = _tile(_over(512, WindowDimension(11)), WindowAxis(4096, 4096, PLAIN)).axes
    assert columns.length * 4 == TUNED.segment_bytes
    assert rows.length >= 20


def test_rows_are_cut_shorter_where_many_are_under_one_window() -> None:
    rows, columns = _tile(
        _over(5000, WindowDimension(250)), WindowAxis(4096, 4096, PLAIN), width=8
    ).axes
    assert columns.length * 8 < TUNED.segment_bytes
    assert rows.length >= 400


def test_windows_that_do_not_fit_have_no_tile() -> None:
    assert tile_of([_over(1 << 20, WindowDimension(1 << 18))], 4, TUNED, is_idempotent=True) is None
    # Taps that no levels are shared for all stand in the text.
    apart = WindowDimension(500, stride=2, window_dilation=3)
    assert tile_of([_over(1 << 20, apart)], 4, TUNED, is_idempotent=True) is None


def test_levels_of_windows_that_do_not_fit_are_not_sought(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_tiles, "levels_of", None)
    assert tile_of([_over(1 << 41, WindowDimension(1 << 40))], 4, TUNED, is_idempotent=True) is None


@pytest.mark.parametrize("size", [2, 15, 64, 300, 1000])
@pytest.mark.parametrize("width", [1, 4, 16])
def test_tiles_fit_on_the_stack(size: int, width: int) -> None:
    axes = [_over(3000, WindowDimension(size)), _over(2000, WindowDimension(3, 2))]
    tile = tile_of(axes, width, TUNED, is_idempotent=False)
    assert tile is None or stack_elements(tile, TUNED.short_row) * width <= TUNED.max_stack_bytes


@pytest.mark.parametrize(
    "window",
    [
        WindowDimension(5),
        WindowDimension(5, padding_low=2, padding_high=2),
        WindowDimension(5, padding_high=3),
        WindowDimension(3, 2, base_dilation=2),
        WindowDimension(3, 3, padding_low=-7),
    ],
)
def test_elements_are_clipped_where_there_are_none(window: WindowDimension) -> None:
    axis = TiledAxis(_over(100, window), 10)
    first = -window.padding_low
    last = (axis.axis.size - 1) * window.stride + first + window.size
    assert axis.is_clipped == (first < 0 or last > 100 or window.base_dilation > 1)
    assert 0 < axis.elements <= axis.spacing.span


def test_every_position_is_in_a_tile() -> None:
    tile = _tile(_over(77, WindowDimension(3)), _over(1001, WindowDimension(7, 2)))
    covered = [axis.blocks * axis.length for axis in tile.axes]
    assert all(n >= axis.axis.size for n, axis in zip(covered, tile.axes, strict=True))
    assert tile.count == math.prod(axis.blocks for axis in tile.axes)
