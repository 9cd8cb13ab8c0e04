"""Spatial dimensions cut into phases and blocks, against the definition of a window."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.processors import MACHINES
from xla_contract.types.dimension_numbers import WindowDimension
from xla_server.codegen.lower.contraction.convolution_phases import (
    Phase,
    PhaseDimension,
    all_phases,
    do_overlap,
    joined,
    panel_columns,
    panels,
    phases,
    scratch,
    tiles,
)
from xla_server.codegen.routines.contraction.product_tiles import tallest
from xla_server.target.machine import Machine
from xla_server.target.target import Target

WINDOWS = st.builds(
    WindowDimension,
    size=st.integers(1, 5),
    stride=st.integers(1, 3),
    padding_low=st.integers(-2, 4),
    padding_high=st.integers(0, 3),
    window_dilation=st.integers(1, 3),
    base_dilation=st.integers(1, 4),
    window_reversal=st.booleans(),
)


def _products(d: WindowDimension, size: int, result: int) -> set[tuple[int, int]]:
    """Return (kernel's element, input's element) of all products of a result."""
    found = set()
    for tap in range(d.size):
        position = result * d.stride + tap * d.window_dilation - d.padding_low
        element, rest = divmod(position, d.base_dilation)
        if not rest and 0 <= element < size:
            found.add((d.size - 1 - tap if d.window_reversal else tap, element))
    return found


@given(WINDOWS, st.integers(1, 9), st.integers(1, 12))
def test_phases_have_the_products_of_the_window(d: WindowDimension, size: int, count: int) -> None:
    lines = phases(d, size, count)
    if lines is None:
        assert d.base_dilation > 1
        assert d.stride > 1 or d.window_dilation > 1
        return
    found: dict[int, set[tuple[int, int]]] = {}
    for line in lines:
        for y in range(line.results):
            at = found[line.first + y * line.apart] = set()
            for t in range(line.taps):
                element = line.start + y * line.step + t * line.reach
                if 0 <= element < size:
                    at.add((line.tap + t * line.tap_step, element))
                assert 0 <= element < size or not line.is_inside
    assert found == {result: _products(d, size, result) for result in range(count)}


def test_phases_of_all_dimensions_are_combined_or_there_are_none() -> None:
    dilated = WindowDimension(3, padding_low=2, padding_high=2, base_dilation=2)
    plain, strided = WindowDimension(3), WindowDimension(3, stride=2, base_dilation=2)
    found = all_phases([dilated, plain], [5, 6], [11, 4])
    assert found is not None
    assert [[line.first for line in lines] for lines in found] == [[0, 0], [1, 0]]
    assert all_phases([dilated, strided], [5, 6], [11, 5]) is None


def _phase(machine: Machine, rows: int = 40, outputs: int = 24, shared: int | None = None) -> Phase:
    window = WindowDimension(3, padding_low=1, padding_high=1)
    each = [phases(window, size, size) or [] for size in (rows, 30)]
    lines: tuple[PhaseDimension, ...] = tuple(line for (line,) in each)
    return Phase(Target.of(machine), "f32", 4, 2, 1, 16, outputs, lines, shared=shared)


@pytest.mark.parametrize("cores", [1, 2, 128])
@pytest.mark.parametrize("name", MACHINES)
def test_there_are_blocks_for_every_core(name: str, cores: int) -> None:
    machine = dataclasses.replace(MACHINES[name], cores=cores)
    phase = _phase(machine)
    assert phase.tasks >= min(phase.tuning.min_blocks, 2 * 40)
    assert phase.work_items <= phase.tuning.work_items
    assert phase.box[1] == 32
    assert phase.box_elements == phase.box[0] * 32 * 16
    # Boxes that leave the cache are not on the stack.
    small = _phase(dataclasses.replace(machine, l2_bytes=2 << 10))
    assert scratch([small]) == small.work_items * small.box_elements
    assert scratch([phase]) == 0


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("outputs", [1, 24, 32, 100])
def test_panels_cover_the_output_features(name: str, outputs: int) -> None:
    phase = _phase(MACHINES[name], outputs=outputs)
    runs = panels(phase)
    columns = [c for first, width, count in runs for c in range(first, first + width * count)]
    assert columns == list(range(outputs))
    assert all(width <= panel_columns(phase) for _, width, _ in runs)


def test_joined_phases_share_the_smallest_block() -> None:
    machine = MACHINES["avx2"]
    one, other = _phase(machine, rows=40), _phase(machine, rows=9)
    found = joined([one, other])
    assert {phase.block for phase in found} == {min(one.block, other.block)}


def test_blocks_overlap_where_the_last_one_of_a_row_is_short() -> None:
    machine = MACHINES["avx2"]
    window = phases(WindowDimension(1), 10, 10) or []
    even = Phase(Target.of(machine), "f32", 4, 1, 1, 1, 1, tuple(window), shared=5)
    assert not do_overlap([even])
    assert do_overlap([dataclasses.replace(even, shared=4)])
    # Blocks of whole rows do not overlap.
    assert not do_overlap([_phase(machine, rows=10, shared=4)])


def test_tiles_of_a_row_are_as_even_as_can_be(machine: Machine) -> None:
    most = tallest(machine)
    assert most == {32: 6, 64: 14}[machine.vector_bytes]
    for size in (*range(1, 5 * most), 113):
        rows, count, lower_count = tiles(machine, size)
        assert 0 < rows <= most
        assert count > 0
        assert count * rows + lower_count * (rows - 1) == size
        assert count + lower_count == -(-size // most)
