"""Dimensions that become one loop, and those that do not."""

from collections.abc import Sequence

from tests.unit.codegen.schedules.graphs import load, row, store
from xla_server.codegen.schedules.builders.collapse import Make, collapsed
from xla_server.codegen.trace.graph import Store
from xla_server.codegen.trace.tracer import Index
from xla_server.ir.analysis.affine import Affine, linear

SIZES = (4, 5, 6)


def _copy_of(*strides: int) -> Make:
    """Return stores of a dense result, read with these strides."""

    def make(index: Index) -> Sequence[Store]:
        read = Affine(0)
        for part, stride in zip(index, strides, strict=True):
            read = read + part * stride
        return [store(linear(index, SIZES), load(read))]

    return make


def test_dimensions_that_all_indices_move_through_as_one_are_one_loop() -> None:
    (loop,), (only,) = collapsed(SIZES, _copy_of(30, 6, 1))
    assert loop.size == 120
    assert only.offset == row(loop)


def test_a_dimension_that_one_index_skips_has_a_loop_of_its_own() -> None:
    loops, (only,) = collapsed(SIZES, _copy_of(60, 6, 1))
    assert [loop.size for loop in loops] == [4, 30]
    assert set(only.offset.terms) == set(row(*loops).terms)
    loops, _ = collapsed(SIZES, _copy_of(1, 4, 20))
    assert [loop.size for loop in loops] == [4, 5, 6]


def test_dimensions_of_one_element_have_no_loop() -> None:
    loops, _ = collapsed((1, 7, 1), lambda index: [store(index[1], load(index[1] * 2))])
    assert [loop.size for loop in loops] == [7]
    loops, (only,) = collapsed((), lambda index: [store(Affine(0), load(Affine(3)))])
    assert (loops, only.offset) == ((), Affine(0))


def test_the_last_loop_but_one_is_divided() -> None:
    loops, (only,) = collapsed(SIZES, _copy_of(60, 6, 1), lambda loops, stores: len(loops))
    assert [loop.size for loop in loops] == [2, 2, 30]
    assert set(only.offset.terms) == set(row(*loops).terms)
