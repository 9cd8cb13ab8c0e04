"""Programs with bounded dynamic sizes inside, their arguments and results static.

Only what counts is compared: the actual sizes of a result and the elements within them. XLA's
padding holds what happens to be in memory.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.examples import ADD, scalar_function
from tests.conformance.oracle import assert_equal_bits
from tests.conformance.sweep.draws import drawing
from tests.conformance.sweep.draws.depth import drawn
from tests.conformance.sweep.draws.program import both
from xla_client import ops
from xla_client.lib import constants
from xla_client.programs.builder import Builder, Op
from xla_contract.types.dimension_numbers import (
    DotDimensionNumbers,
    GatherDimensionNumbers,
    PaddingConfig,
    PaddingDimension,
    ScatterDimensionNumbers,
)
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.shape import Shape


def assert_same(function: Callable[..., Op], *arguments: Any) -> None:
    """Our result and XLA's have the same actual sizes and elements."""

    def observed(*parameters: Op) -> Op:
        found = function(*parameters)
        sizes = [ops.get_dimension_size(found, number) for number in range(found.shape.rank)]
        for number in range(found.shape.rank):
            if found.shape.is_dynamic(number):
                found = ops.remove_dynamic_dimension(found, number)
        return ops.tuple([found, *sizes])

    (ours, theirs), *sizes = both(observed, arguments)
    assert [int(mine) for mine, _ in sizes] == [int(size) for _, size in sizes]
    box = tuple(slice(int(size)) for size, _ in sizes)
    assert_equal_bits(np.ascontiguousarray(ours[box]), np.ascontiguousarray(theirs[box]))


LT = scalar_function(ops.lt)
PADDING = PaddingConfig((PaddingDimension(1, 2, 1), PaddingDimension(0, 1, 0)))

UNARY: dict[str, Callable[[Op], Op]] = {
    "neg": ops.neg,
    "convert": lambda d: ops.convert_element_type(d, E.S64),
    "scalar": lambda d: d * 2.0,
    "transpose": lambda d: ops.transpose(d, [1, 0]),
    "rev": lambda d: ops.rev(d, [0, 1]),
    "broadcast": lambda d: ops.broadcast(d, [2]),
    "broadcast_in_dim": lambda d: ops.broadcast_in_dim(d, [*d.shape.dimensions, 2], [0, 1]),
    "reduce_0": lambda d: ops.reduce(d, constants.zero(d.builder, E.F32), ADD, [0]),
    "reduce_1": lambda d: ops.reduce(d, constants.zero(d.builder, E.F32), ADD, [1]),
    "reduce_all": lambda d: ops.reduce_all(d, constants.zero(d.builder, E.F32), ADD),
    "sort_0": lambda d: ops.sort([d], LT, 0),
    "sort_1": lambda d: ops.sort([d], LT, 1),
    "concat_0": lambda d: ops.concat_in_dim([d, d], 0),
    "concat_1": lambda d: ops.concat_in_dim([d, d], 1),
    "flat": lambda d: ops.reshape(d, [d.shape.element_count]),
    "wrapped": lambda d: ops.reshape(d, [1, *d.shape.dimensions, 1]),
    "pad": lambda d: ops.pad(d, constants.zero(d.builder, E.F32), PADDING),
    "window": lambda d: ops.reduce_window(
        d, constants.zero(d.builder, E.F32), ADD, [1, 2], [1, 1], "valid"
    ),
    "dot": lambda d: ops.dot_general(d, d, DotDimensionNumbers((0,), (0,))),
    "outer": lambda d: ops.dot_general(d, d, DotDimensionNumbers((1,), (1,))),
    "batched": lambda d: ops.dot_general(d, d, DotDimensionNumbers((1,), (1,), (0,), (0,))),
    "whole_slice": lambda d: ops.slice(d, [0, 0], d.shape.dimensions),
    "masked": lambda d: ops.select(ops.gt(d, 1.0), d, 0.0),
    "clamp": lambda d: ops.clamp(-1.0, d, 1.0),
}
"""On f32[r,c] of small whole numbers, so that no order of additions shows."""


ALONG: dict[str, list[tuple[int, ...]]] = {
    # StableHLO, which XLA reads the program as, has these with one dynamic dimension at most.
    **{name: [(0,), (1,)] for name in ("broadcast", "broadcast_in_dim", "wrapped")},
    # XLA counts positions below 0 where a window is larger than what it slides over.
    "window": [(0,)],
}
"""The dimensions that are dynamic, where not any of both or both."""


def numbers(seed: int, *dimensions: int) -> Any:
    return np.random.default_rng(seed).integers(-9, 9, dimensions).astype(np.float32)


@pytest.mark.parametrize("name", UNARY)
@drawn(1, 25)
@given(data=st.data(), seed=drawing.seeds())
def test_an_operand_of_dynamic_size(name: str, data: Any, seed: int) -> None:
    rows, columns = data.draw(st.integers(2, 5)), data.draw(st.integers(2, 5))
    along = data.draw(st.sampled_from(ALONG.get(name, [(0,), (1,), (0, 1)])))
    sizes = [data.draw(st.integers(0, (rows, columns)[dimension])) for dimension in along]

    def program(array: Op, *sizes: Op) -> Op:
        for dimension, size in zip(along, sizes, strict=True):
            array = ops.set_dimension_size(array, size, dimension)
        return UNARY[name](array)

    assert_same(program, numbers(seed, rows, columns), *map(np.int32, sizes))


BINARY: dict[str, Callable[[Op, Op], Op]] = {
    "add": ops.add,
    "compare": ops.lt,
    "max": ops.max,
    "select": lambda d, s: ops.select(ops.lt(d, s), s, d),
    "clamp": lambda d, s: ops.clamp(s, d, s),
    "concat": lambda d, s: ops.concat_in_dim([d, s], 0),
    "concat_beside": lambda d, s: ops.concat_in_dim([s, d], 1),
    # A sum of one product may be -0, and need not.
    "contract": lambda d, s: ops.add(
        ops.dot_general(d, s, DotDimensionNumbers((0,), (0,))),
        d.builder.constant(np.zeros((3, 3), np.float32)),
    ),
    # XLA loses a dynamic batch dimension of the right operand where the left one is static.
    "batch": lambda d, s: ops.dot_general(d, s, DotDimensionNumbers((1,), (1,), (0,), (0,))),
    "replace": lambda d, s: ops.dynamic_update_slice(s, d, [d.builder.constant(np.int32(0))] * 2),
    "update": lambda d, s: ops.dynamic_update_slice(
        d, ops.slice(s, [0, 0], [1, 2]), [d.builder.constant(np.int32(1))] * 2
    ),
}


@pytest.mark.parametrize("name", BINARY)
@drawn(1, 25)
@given(data=st.data(), seed=drawing.seeds())
def test_an_operand_of_static_size_is_taken_as_far(name: str, data: Any, seed: int) -> None:
    rows = data.draw(st.integers(2, 5))
    size = data.draw(st.integers(0, rows))

    def program(array: Op, other: Op, size: Op) -> Op:
        return BINARY[name](ops.set_dimension_size(array, size, 0), other)

    assert_same(program, numbers(seed, rows, 3), numbers(seed + 1, rows, 3), np.int32(size))


@drawn(2, 50)
@given(data=st.data(), seed=drawing.seeds())
def test_dynamic_reshape(data: Any, seed: int) -> None:
    rows, columns = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    kept, size = data.draw(st.integers(0, rows)), data.draw(st.integers(0, columns))

    def program(array: Op, kept: Op, size: Op) -> Op:
        flat = ops.reshape(array, [rows * columns])
        return ops.dynamic_reshape(flat, [kept, size], [rows, columns], [True, True])

    assert_same(program, numbers(seed, rows, columns), np.int32(kept), np.int32(size))


@drawn(2, 50)
@given(data=st.data(), seed=drawing.seeds())
def test_sizes_can_be_set_again(data: Any, seed: int) -> None:
    sizes = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=4))

    def program(array: Op, *sizes: Op) -> Op:
        for size in sizes:
            array = ops.set_dimension_size(array, size, 0)
        return array

    assert_same(program, numbers(seed, 6), *map(np.int32, sizes))


@drawn(2, 50)
@given(data=st.data(), seed=drawing.seeds())
def test_rows_are_gathered_by_some_of_the_indices(data: Any, seed: int) -> None:
    rows, count = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    size = data.draw(st.integers(0, count))
    indices = np.random.default_rng(seed).integers(-2, rows + 2, count).astype(np.int32)

    def program(array: Op, indices: Op, size: Op) -> Op:
        chosen = ops.set_dimension_size(indices, size, 0)
        return ops.gather(array, chosen, GatherDimensionNumbers((1,), (0,), (0,), 1), [1, 3])

    assert_same(program, numbers(seed, rows, 3), indices, np.int32(size))


@drawn(2, 50)
@given(data=st.data(), seed=drawing.seeds())
def test_some_of_the_updates_are_scattered(data: Any, seed: int) -> None:
    rows, count = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    size = data.draw(st.integers(0, count))
    indices = np.random.default_rng(seed).integers(-2, rows + 2, count).astype(np.int32)

    def program(array: Op, indices: Op, updates: Op, size: Op) -> Op:
        places = ScatterDimensionNumbers((1,), (0,), (0,), 1)
        some = ops.set_dimension_size(indices, size, 0)
        return ops.scatter(array, some, updates, ADD, places)

    arrays = numbers(seed, rows, 3), indices, numbers(seed, count, 3)
    assert_same(program, *arrays, np.int32(size))


@drawn(2, 50)
@given(data=st.data(), seed=drawing.seeds())
def test_a_loop_may_change_the_size_it_carries(data: Any, seed: int) -> None:
    size, trips = data.draw(st.integers(0, 6)), data.draw(st.integers(0, 6))
    carried = Shape.parse("(f32[<=6], s32[], s32[])")

    def body(builder: Builder) -> Op:
        array, left, size = _elements(builder.parameter(0, carried))
        grown = ops.min(size + 1, builder.constant(np.int32(6)))
        return ops.tuple([ops.set_dimension_size(array, grown, 0), left - 1, grown])

    def condition(builder: Builder) -> Op:
        _, left, _ = _elements(builder.parameter(0, carried))
        return ops.gt(left, 0)

    def program(array: Op, trips: Op, size: Op) -> Op:
        start = ops.tuple([ops.set_dimension_size(array, size, 0), trips, size])
        test, step = Builder("condition"), Builder("body")
        loop = ops.while_(test.build(condition(test)), step.build(body(step)), start)
        found = _elements(loop)[0]
        # The padding of the loop's result is unspecified: the sum reads the elements before it.
        whole = ops.reduce_all(ops.select(ops.ge(found, found), found, 0.0), _zero(found), ADD)
        return ops.add(whole, ops.convert_element_type(ops.get_dimension_size(found, 0), E.F32))

    assert_same(program, numbers(seed, 6), np.int32(trips), np.int32(size))


@drawn(2, 30)
@given(data=st.data(), seed=drawing.seeds())
def test_branches_may_give_different_sizes(data: Any, seed: int) -> None:
    size, choice = data.draw(st.integers(0, 6)), data.draw(st.integers(0, 2))

    def branch(number: int) -> Any:
        builder = Builder(f"branch{number}")
        array, size = _elements(builder.parameter(0, Shape.parse("(f32[6], s32[])")))
        some = ops.set_dimension_size(array, size, 0) if number else array
        return builder.build(ops.tuple([some if number < 2 else ops.neg(some)]))

    def program(choice: Op, array: Op, size: Op) -> Op:
        pair = ops.tuple([array, size])
        found = ops.conditional(choice, [branch(n) for n in range(3)], [pair] * 3)
        return ops.reduce_all(_elements(found)[0], _zero(array), ADD)

    assert_same(program, np.int32(choice), numbers(seed, 6), np.int32(size))


def _elements(op: Op) -> list[Op]:
    return [ops.get_tuple_element(op, number) for number in range(len(op.shape.tuple_shapes))]


def _zero(op: Op) -> Op:
    return constants.zero(op.builder, E.F32)
