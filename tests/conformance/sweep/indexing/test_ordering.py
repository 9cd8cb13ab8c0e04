"""Sort and top-k over drawn dimensions, comparators and types, against XLA's CPU backend."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.building import scalars
from tests.conformance.oracle import assert_equal_bits
from tests.conformance.sweep.draws import drawing
from tests.conformance.sweep.draws.depth import drawn
from tests.conformance.sweep.draws.moving import PACKED, bits
from tests.conformance.sweep.draws.program import both
from xla_client import ops
from xla_client.lib import sorting
from xla_client.programs.builder import Op
from xla_client.programs.computation import Computation
from xla_contract.types.element_type import ElementType as E

Draw = st.DataObject

# XLA's backend aborts or refuses to sort types of less than a byte.
INTEGRAL = tuple(t for t in (*drawing.INTEGERS, E.PRED) if t not in PACKED)
FLOATS = tuple(t for t in (*drawing.FLOATS, *drawing.NARROW) if t not in PACKED)
KEYS = (*INTEGRAL, *FLOATS)
PAYLOADS = tuple(t for t in drawing.EVERY if t not in PACKED)


def comparator(decide: Callable[..., Op], types: Sequence[E]) -> Computation:
    """A comparator from a function of (a0, b0, a1, b1, ...)."""
    return scalars(decide, *(element_type for element_type in types for _ in range(2)))


def keys(data: Draw, element_type: E, sizes: Sequence[int], *, few: bool = True) -> Any:
    """Values of which `few` leaves many equal."""
    array = drawing.array(element_type, sizes, data.draw(drawing.seeds()))
    if few and array.size and data.draw(st.booleans()):
        flat = array.reshape(-1)
        return flat[np.arange(array.size) % min(array.size, 3)].reshape(sizes)
    return array


def assert_sorts_alike(program: Callable[..., Op], arrays: Sequence[Any]) -> None:
    """Both sides give the same bits, any two NaNs counting as the same."""
    for ours, theirs in both(program, arrays):
        assert_equal_bits(ours, theirs)


@drawn(5, 250)
@given(st.data())
def test_sort_along_any_dimension(data: Draw) -> None:
    sizes = data.draw(drawing.dimensions(min_rank=1, max_rank=3, max_size=9))
    dimension = data.draw(st.integers(0, len(sizes) - 1))
    element_type = data.draw(st.sampled_from(KEYS))
    descending, stable = data.draw(st.booleans()), data.draw(st.booleans())
    compare = ops.gt_total_order if descending else ops.lt_total_order
    if not element_type.is_floating:
        compare = ops.gt if descending else ops.lt
    order = comparator(compare, [element_type])
    assert_sorts_alike(
        lambda x: ops.sort(x, order, dimension, stable), [keys(data, element_type, sizes)]
    )


@drawn(3, 100)
@given(st.data())
def test_sort_long_rows(data: Draw) -> None:
    sizes = (data.draw(st.integers(1, 3)), data.draw(st.integers(10, 300)))
    element_type = data.draw(st.sampled_from(KEYS))
    compare = ops.gt_total_order if element_type.is_floating else ops.gt
    order = comparator(compare, [element_type])
    assert_sorts_alike(
        lambda x: ops.sort(x, order, 1, True), [keys(data, element_type, sizes, few=False)]
    )


@drawn(3, 100)
@given(st.data())
def test_sort_by_total_order_tells_nans_apart(data: Draw) -> None:
    # XLA widens bf16 to compare it, which makes one NaN of quiet and signalling ones.
    element_type = data.draw(st.sampled_from([E.F16, E.F32, E.F64]))
    array = bits(element_type, (40,), data.draw(drawing.seeds()))
    nans = np.flatnonzero(np.isnan(array))
    # The positions show the order, which a comparison of NaNs would not.
    array = np.concatenate([array, -array[nans], np.full(3, np.nan, array.dtype)])
    positions = np.arange(len(array), dtype=np.int32)
    order = comparator(lambda a, b, i, j: ops.lt_total_order(a, b), [element_type, E.S32])
    assert_sorts_alike(lambda x, i: ops.sort([x, i], order, 0, True), [array, positions])


@drawn(6, 250)
@given(st.data())
def test_sort_carries_operands_of_every_type(data: Draw) -> None:
    sizes = data.draw(drawing.dimensions(min_rank=1, max_rank=3, max_size=7))
    dimension = data.draw(st.integers(0, len(sizes) - 1))
    key = data.draw(st.sampled_from(KEYS))
    payloads = data.draw(st.lists(st.sampled_from(PAYLOADS), min_size=1, max_size=3))
    place = data.draw(st.integers(0, len(payloads)))
    types = [*payloads[:place], key, *payloads[place:]]
    arrays = [keys(data, element_type, sizes) for element_type in types]
    compare = ops.lt_total_order if key.is_floating else ops.lt

    def decide(*scalars: Op) -> Op:
        return compare(scalars[2 * place], scalars[2 * place + 1])

    order = comparator(decide, types)
    assert_sorts_alike(lambda *parts: ops.sort(parts, order, dimension, True), arrays)


@drawn(4, 150)
@given(st.data())
def test_sort_by_two_keys_and_by_what_is_computed(data: Draw) -> None:
    first, second = (data.draw(st.sampled_from((E.S8, E.S16, E.S32, E.S64))) for _ in range(2))
    sizes = data.draw(drawing.dimensions(min_rank=1, max_rank=2, max_size=9))
    arrays = [keys(data, element_type, sizes) for element_type in (first, second)]

    def lexicographic(a: Op, b: Op, x: Op, y: Op) -> Op:
        return ops.or_(ops.gt(a, b), ops.and_(ops.eq(a, b), ops.lt(x, y)))

    def by_magnitude(a: Op, b: Op, x: Op, y: Op) -> Op:
        return ops.lt(abs(x), abs(y))

    def never(a: Op, b: Op, x: Op, y: Op) -> Op:
        return a.builder.constant(False)

    decide = data.draw(st.sampled_from([lexicographic, by_magnitude, never]))
    order = comparator(decide, [first, second])
    assert_sorts_alike(lambda a, b: ops.sort([a, b], order, -1, True), arrays)


@drawn(3, 100)
@given(st.data())
def test_sort_takes_equal_zeros_in_their_order(data: Draw) -> None:
    element_type = data.draw(st.sampled_from(FLOATS))
    array = keys(data, element_type, (data.draw(st.integers(1, 20)),))
    # Plain comparisons with NaN are false, so with it there is no order to sort by.
    array = np.where(np.isnan(array), np.ones((), array.dtype), array)
    order = sorting.create_scalar_lt_computation(element_type)
    assert_sorts_alike(lambda x: ops.sort(x, order, 0, True), [array])


@drawn(6, 300)
@given(st.data())
def test_top_k_in_both_directions_with_ties_and_nans(data: Draw) -> None:
    sizes = data.draw(drawing.dimensions(min_rank=1, max_rank=3, max_size=9, zero=False))
    k = data.draw(st.integers(0, sizes[-1]))
    array = keys(data, data.draw(st.sampled_from(KEYS)), sizes)
    largest = data.draw(st.booleans())
    assert_sorts_alike(lambda x: ops.top_k(x, k, largest), [array])


@drawn(3, 150)
@given(st.data())
def test_top_k_tells_nans_apart(data: Draw) -> None:
    element_type = data.draw(st.sampled_from(drawing.FLOATS))
    array = bits(element_type, (2, 30), data.draw(drawing.seeds()))
    with np.errstate(all="ignore"):
        array = np.where(np.abs(array) > 1, np.nan * array, array).astype(array.dtype)
    k, largest = data.draw(st.integers(1, 30)), data.draw(st.booleans())
    assert_sorts_alike(lambda x: ops.top_k(x, k, largest), [array])
