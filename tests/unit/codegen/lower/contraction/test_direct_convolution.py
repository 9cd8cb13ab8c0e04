"""Convolutions by tiles: which are, and what brings their arrays into order."""

from collections.abc import Sequence

import pytest

from tests.unit.codegen.lower.lowered import AVX2, kernels, sizes
from tests.unit.passes.passing import stated
from xla_server.codegen.lower.contraction.convolution import (
    direct_phases,
    is_depthwise,
    is_last,
)
from xla_server.codegen.lower.contraction.convolution_phases import Phase
from xla_server.codegen.routines.contraction.winograd_block import GAP_BYTES

LAST, FIRST = "b01f_01io->b01f", "bf01_oi01->bf01"
SAME = "size=3x3 pad=1_1x1_1"


def _convolution(
    base: str, kernel: str, result: str, window: str = SAME, more: str = f"dim_labels={LAST}"
) -> tuple[Sequence[str], str]:
    root = f"{result} convolution(x0, x1), window={{{window}}}, {more}"
    return (base, kernel), root


def _phases(base: str, kernel: str, result: str, *rest: str) -> list[Phase] | None:
    return direct_phases(AVX2, stated(*_convolution(base, kernel, result, *rest)).entry.root)


def test_small_filters_of_many_features_are_done_at_points() -> None:
    weights, tiles = kernels(*_convolution("f32[2,32,32,16]", "f32[3,3,16,32]", "f32[2,32,32,32]"))
    assert list(sizes(weights).values()) == [(36, 16 * 32 + GAP_BYTES // 4)]
    assert [value.name for value in tiles.reads[:1]] == ["x0"]
    assert set(weights.writes) < set(tiles.reads)


def test_any_precision_asked_for_is_done_without_points() -> None:
    more = f"dim_labels={LAST}, operand_precision={{highest,highest}}"
    given = _convolution("f32[2,32,32,16]", "f32[3,3,16,32]", "f32[2,32,32,32]", SAME, more)
    (tiles,) = kernels(*given)
    assert [value.name for value in tiles.reads] == ["x0", "x1"]


def test_other_orders_are_copied_before_and_after() -> None:
    more = f"dim_labels={FIRST}"
    window = "size=5x5 pad=2_2x2_2"
    given = _convolution("f32[2,16,32,32]", "f32[64,16,5,5]", "f32[2,64,32,32]", window, more)
    base, weights, tiles, back = kernels(*given)
    assert list(sizes(base).values()) == [(2, 32, 32, 16)]
    assert list(sizes(weights).values()) == [(5, 5, 16, 64)]
    assert {*base.writes, *weights.writes} == set(tiles.reads)
    assert back.reads == tiles.writes
    assert list(sizes(back).values()) == [(2, 64, 32, 32)]


@pytest.mark.parametrize(
    ("order", "base"), [("bf01", "f32[2,1,40,40]"), ("b01f", "f32[2,40,40,1]")]
)
def test_dimensions_of_one_element_are_in_any_order(order: str, base: str) -> None:
    """One feature is first and last: nothing is copied."""
    more = f"dim_labels={order}_oi01->b01f"
    given = _convolution(base, "f32[40,1,5,5]", "f32[2,40,40,40]", "size=5x5 pad=2_2x2_2", more)
    names = [row.name for row in kernels(*given)]
    assert not any("input" in name for name in names)


def test_what_is_not_worth_tiles() -> None:
    wide = "f32[2,32,32,16]", "f32[3,3,16,32]", "f32[2,32,32,32]"
    assert _phases(*wide)
    # Rows of results too short for a tile.
    assert _phases("f32[2,32,2,16]", "f32[3,3,16,32]", "f32[2,32,2,32]") is None
    assert _phases(*(shape.replace("f32", "s32") for shape in wide)) is None
    groups = f"dim_labels={LAST}, batch_group_count=2"
    assert _phases(wide[0], wide[1], "f32[1,32,32,32]", SAME, groups) is None
    # A copy of the input would take longer than the sums.
    points = "f32[2,16,32,32]", "f32[4,16,1,1]", "f32[2,4,32,32]", "size=1x1"
    assert _phases(*points, f"dim_labels={FIRST}") is None


def test_a_depthwise_convolution_has_one_group_of_all_features() -> None:
    more = f"dim_labels={LAST}, feature_group_count=64"
    given = "f32[2,32,32,64]", "f32[3,3,1,64]", "f32[2,32,32,64]", SAME, more
    assert is_depthwise(stated(*_convolution(*given)).entry.root)
    phases = _phases(*given)
    assert phases is not None
    assert [(p.groups, p.inputs, p.outputs, p.is_depthwise) for p in phases] == [(1, 1, 64, True)]
    assert not is_depthwise(
        stated(*_convolution("f32[2,8,8,4]", "f32[3,3,4,4]", "f32[2,8,8,4]")).entry.root
    )


def test_features_are_last_in_the_order_of_memory() -> None:
    assert is_last((0, 3, 1, 2))
    assert not is_last((0, 1, 2, 3))
    assert is_last((0, 1))
