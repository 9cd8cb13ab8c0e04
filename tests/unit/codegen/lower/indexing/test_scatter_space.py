"""Work items of scatters, by their sizes."""

import pytest

from xla_contract.types.dimension_numbers import ScatterDimensionNumbers
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.codegen.lower.indexing.scatter_space import Division, Ranges, Space, UpdateBlocks
from xla_server.target.machine import Machine
from xla_server.target.target import Target

TUNED = Target.of(Machine.avx2(cores=2)).tuning.scatters

ROWS = ScatterDimensionNumbers((1,), (0,), (0,), 1)
POINTS = ScatterDimensionNumbers((), (0,), (0,), 1)
PAIRS = ScatterDimensionNumbers((), (0, 1), (0, 1), 1)


def division(
    numbers: ScatterDimensionNumbers,
    sizes: tuple[int, ...],
    updates: tuple[int, ...],
    *,
    is_unique: bool = False,
    weight: int = 1,
) -> Division:
    shapes = [Shape.array(ElementType.F32, each) for each in (sizes, updates)]
    return Space.of(numbers, *shapes).division(is_unique, weight, 4, TUNED)


def test_updates_of_different_positions_are_done_in_blocks() -> None:
    points = division(POINTS, (1 << 20,), (100_000,), is_unique=True)
    assert points == UpdateBlocks(0, 4000, 100_000)
    assert points.work_items == 25
    # Whole rows, though the columns of all of them would be blocks of their own.
    rows = division(ROWS, (9000, 1024), (4096, 1024), is_unique=True)
    assert rows == UpdateBlocks(0, 4, 4096)
    few = division(ROWS, (9, 500_000), (3, 500_000), is_unique=True)
    assert isinstance(few, UpdateBlocks)
    assert few.dimension == 1


def test_the_updates_of_one_vector_are_of_different_positions() -> None:
    numbers = ScatterDimensionNumbers((0, 1), (), (0, 1), 0)
    assert division(numbers, (1000, 1000), (900, 900)) == UpdateBlocks(0, 5, 900)


@pytest.mark.parametrize(
    ("numbers", "sizes", "updates", "expected"),
    [
        (ROWS, (70_000, 16), (50_000, 16), Ranges(0, 2, 6)),
        (ROWS, (30_000, 48), (20_000, 48), Ranges(0, 4, 4)),
        (POINTS, (1 << 21,), (100_000,), Ranges(0, 2, 10)),
        # The split is along the dimension with enough positions.
        (PAIRS, (2, 1 << 20), (100_000,), Ranges(1, 2, 10)),
    ],
)
def test_work_items_own_ranges_of_the_result(
    numbers: ScatterDimensionNumbers,
    sizes: tuple[int, ...],
    updates: tuple[int, ...],
    expected: Ranges,
) -> None:
    assert division(numbers, sizes, updates) == expected


def test_ranges_are_there_for_what_takes_longer_than_finding_out_whose_it_is() -> None:
    assert division(POINTS, (1 << 20,), (100_000,)) is None
    assert division(ROWS, (1000, 63), (50_000, 63)) is None
    # Pieces are a page of neighbours, or as many as give every work item two.
    assert division(ROWS, (16, 8), (50_000, 8), weight=8) == Ranges(0, 4, 1)
    assert division(ROWS, (2, 8), (50_000, 8), weight=8) == Ranges(0, 2, 0)
    costly = division(POINTS, (1000,), (50_000,), weight=1000)
    assert isinstance(costly, Ranges)
    assert costly.work_items == 16


def test_dimensions_that_indices_do_not_reach_come_first() -> None:
    assert division(ROWS, (1000, 256), (50_000, 256)) == UpdateBlocks(1, 64, 256)
    batch = ScatterDimensionNumbers((), (1,), (1,), 2, (0,), (0,))
    assert division(batch, (8, 1 << 18), (8, 50_000)) == UpdateBlocks(0, 1, 8)


def test_one_work_item() -> None:
    # Too little to do, also of different positions.
    assert division(POINTS, (1 << 20,), (1000,), is_unique=True) is None
    assert division(ROWS, (50_000, 16), (1000, 16)) is None
    # Every update may reach every position.
    assert division(POINTS, (1,), (100_000,)) is None
    boxes = ScatterDimensionNumbers((1, 2), (), (0, 1), 1)
    assert division(boxes, (900, 900), (50, 300, 300)) is None
    # In the order of elements, the first element of all windows comes before the second of any.
    numbers = ScatterDimensionNumbers((0,), (0,), (0, 1), 1)
    assert division(numbers, (5000, 40), (30, 20_000)) is None


def test_whole_neighbouring_dimensions_of_a_window_are_one() -> None:
    def space(
        numbers: ScatterDimensionNumbers, sizes: tuple[int, ...], updates: tuple[int, ...]
    ) -> Space:
        return Space.of(numbers, *(Shape.array(ElementType.F32, each) for each in (sizes, updates)))

    rows = ScatterDimensionNumbers((1, 2, 3), (0,), (0,), 1)
    merged = space(rows, (1348, 7, 42, 2), (4096, 7, 42, 2))
    assert merged == space(ROWS, (1348, 588), (4096, 588))
    # The window has a part of the last dimension: only the two before it are contiguous.
    part = space(rows, (1348, 7, 42, 3), (4096, 7, 42, 2))
    assert (part.sizes, part.updates) == ((1348, 294, 3), (4096, 294, 2))
    # Batch dimensions of the updates behind the window keep their order.
    behind = ScatterDimensionNumbers((0, 1), (2,), (2,), 1)
    merged = space(behind, (7, 42, 1348), (7, 42, 4096))
    assert (merged.updates, merged.batch_dims) == ((294, 4096), (1,))
    # A dimension that an index reaches stays apart.
    reached = ScatterDimensionNumbers((1, 2), (), (0,), 1)
    assert space(reached, (90, 8), (5, 30, 8)).sizes == (90, 8)
    crossed = ScatterDimensionNumbers((0, 2), (1,), (1,), 1)
    assert space(crossed, (6, 9, 8), (6, 5, 8)).sizes == (6, 9, 8)
