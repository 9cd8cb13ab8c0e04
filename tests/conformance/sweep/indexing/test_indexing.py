"""Gather and scatter over drawn dimension numbers, against XLA's CPU backend."""

import math
from collections.abc import Callable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.building import scalars
from tests.conformance.oracle import assert_close, assert_equal_bits
from tests.conformance.sweep.draws import drawing
from tests.conformance.sweep.draws.depth import drawn
from tests.conformance.sweep.draws.index_maps import IndexMap, index_maps
from tests.conformance.sweep.draws.moving import INDICES, assert_moves_alike, bits, types
from tests.conformance.sweep.draws.program import both
from xla_client import ops
from xla_client.programs.builder import Op
from xla_client.programs.computation import Computation
from xla_contract.types.dimension_numbers import GatherDimensionNumbers, ScatterDimensionNumbers
from xla_contract.types.element_type import ElementType as E

Draw = st.DataObject


def gather_numbers(mapping: IndexMap) -> GatherDimensionNumbers:
    """The dimension numbers of a gather whose slices are the windows."""
    return GatherDimensionNumbers(
        offset_dims=mapping.window_dims,
        collapsed_slice_dims=mapping.dropped,
        start_index_map=mapping.mapped,
        index_vector_dim=mapping.index_vector_dim,
        operand_batching_dims=mapping.batching,
        start_indices_batching_dims=mapping.indices_batching,
    )


def scatter_numbers(mapping: IndexMap) -> ScatterDimensionNumbers:
    """The dimension numbers of a scatter whose updates are the windows."""
    return ScatterDimensionNumbers(
        update_window_dims=mapping.window_dims,
        inserted_window_dims=mapping.dropped,
        scatter_dims_to_operand_dims=mapping.mapped,
        index_vector_dim=mapping.index_vector_dim,
        input_batching_dims=mapping.batching,
        scatter_indices_batching_dims=mapping.indices_batching,
    )


@drawn(10, 500)
@given(st.data())
def test_gather_clamps_each_slice_into_the_operand(data: Draw) -> None:
    mapping = data.draw(index_maps())
    operand = bits(data.draw(types()), mapping.operand, data.draw(drawing.seeds()))
    indices = data.draw(mapping.indices(data.draw(st.sampled_from(INDICES))))
    numbers = gather_numbers(mapping)
    assert_moves_alike(lambda x, i: ops.gather(x, i, numbers, mapping.sizes), [operand, indices])


@drawn(3, 100)
@given(st.data())
def test_gather_of_indices_that_are_sorted_as_promised(data: Draw) -> None:
    rows, columns = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    operand = bits(data.draw(types()), (rows, columns), data.draw(drawing.seeds()))
    places = data.draw(st.lists(st.integers(0, rows - 1), max_size=8))
    indices = np.array(sorted(places), np.int32)
    numbers = GatherDimensionNumbers((1,), (0,), (0,), 1)
    assert_moves_alike(
        lambda x, i: ops.gather(x, i, numbers, (1, columns), indices_are_sorted=True),
        [operand, indices],
    )


def overwrite(element_type: E) -> Computation:
    """The combiner that takes the update."""
    return combiner(lambda _, update: update, element_type)


def combiner(function: Callable[[Op, Op], Op], element_type: E) -> Computation:
    """A combiner of two scalars of a type."""
    return scalars(function, element_type, element_type)


@drawn(8, 400)
@given(st.data())
def test_scatter_overwrites_and_skips_windows_outside(data: Draw) -> None:
    mapping = data.draw(index_maps(scatters=True))
    element_type = data.draw(types())
    operand, updates = (
        bits(element_type, shape, data.draw(drawing.seeds()))
        for shape in (mapping.operand, mapping.windows)
    )
    # One update for an element: which of several wins is not said.
    indices = mapping.without_overlap(
        data.draw(mapping.indices(data.draw(st.sampled_from(INDICES))))
    )
    numbers = scatter_numbers(mapping)
    unique = data.draw(st.booleans())

    def program(x: Op, i: Op, u: Op) -> Op:
        replace = overwrite(x.shape.element_type)
        return ops.scatter(x, i, u, replace, numbers, unique_indices=unique)

    assert_moves_alike(program, [operand, indices, updates])


COMBINERS: dict[str, Callable[[Op, Op], Op]] = {
    "add": ops.add,
    "multiply": ops.mul,
    "maximum": ops.max,
    "minimum": ops.min,
}


@drawn(8, 400)
@given(st.data())
def test_scatter_combines_integers_of_many_updates(data: Draw) -> None:
    mapping = data.draw(index_maps(scatters=True))
    name = data.draw(st.sampled_from([*COMBINERS, "and", "or", "xor"]))
    logical = {"and": ops.and_, "or": ops.or_, "xor": ops.xor}
    element_type = data.draw(
        st.sampled_from([*drawing.INTEGERS, *([E.PRED] if name in logical else [])])
    )
    operand, updates = (
        drawing.array(element_type, shape, data.draw(drawing.seeds()))
        for shape in (mapping.operand, mapping.windows)
    )
    indices = data.draw(mapping.indices(data.draw(st.sampled_from(INDICES))))
    combine = combiner({**COMBINERS, **logical}[name], element_type)
    numbers = scatter_numbers(mapping)
    ((ours, theirs),) = both(
        lambda x, i, u: ops.scatter(x, i, u, combine, numbers), [operand, indices, updates]
    )
    assert_equal_bits(ours, theirs)


@drawn(8, 300)
@given(st.data())
def test_scatter_combines_floats_of_many_updates(data: Draw) -> None:
    mapping = data.draw(index_maps(scatters=True))
    element_type = data.draw(st.sampled_from([*drawing.FLOATS, *drawing.COMPLEX]))
    names = ["add", "multiply"] if element_type.is_complex else list(COMBINERS)
    name = data.draw(st.sampled_from(names))
    operand, updates = (
        drawing.array(element_type, shape, data.draw(drawing.seeds()), special=False)
        for shape in (mapping.operand, mapping.windows)
    )
    indices = data.draw(mapping.indices(data.draw(st.sampled_from(INDICES))))
    combine = combiner(COMBINERS[name], element_type)
    numbers = scatter_numbers(mapping)
    ((ours, theirs),) = both(
        lambda x, i, u: ops.scatter(x, i, u, combine, numbers), [operand, indices, updates]
    )
    # XLA rounds after each update, ours once: as many roundings as updates may meet.
    assert_close(ours, theirs, ulps=2 * (1 + math.prod(mapping.windows)))


@drawn(4, 200)
@given(st.data())
def test_scatter_of_several_operands_swaps_what_it_combines(data: Draw) -> None:
    mapping = data.draw(index_maps(scatters=True))
    first, second = E.S32, data.draw(st.sampled_from([E.S8, E.U16, E.S64, E.U32]))
    arrays = [
        drawing.array(element_type, shape, data.draw(drawing.seeds()))
        for shape in (mapping.operand, mapping.windows)
        for element_type in (first, second)
    ]
    indices = mapping.without_overlap(data.draw(mapping.indices(E.S32)))
    combine = scalars(
        lambda a, b, x, y: ops.tuple([ops.sub(x, a), ops.add(b, y)]), first, second, first, second
    )
    numbers = scatter_numbers(mapping)
    results = both(
        lambda a, b, i, u, v: ops.scatter([a, b], i, [u, v], combine, numbers),
        [*arrays[:2], indices, *arrays[2:]],
    )
    for ours, theirs in results:
        assert_equal_bits(ours, theirs)


@drawn(3, 100)
@given(st.data())
def test_scatter_of_indices_sorted_and_unique_as_promised(data: Draw) -> None:
    rows, columns = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    places = data.draw(st.sets(st.integers(0, rows - 1)))
    indices = np.array(sorted(places), np.int64)
    element_type = data.draw(types())
    operand, updates = (
        bits(element_type, shape, data.draw(drawing.seeds()))
        for shape in ((rows, columns), (len(places), columns))
    )
    numbers = ScatterDimensionNumbers((1,), (0,), (0,), 1)

    def program(x: Op, i: Op, u: Op) -> Op:
        replace = overwrite(x.shape.element_type)
        return ops.scatter(x, i, u, replace, numbers, True, True)

    assert_moves_alike(program, [operand, indices, updates])
