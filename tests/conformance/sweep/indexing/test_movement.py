"""Operations that move elements, drawn over shapes, attributes and every type, to the bit."""

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.oracle import assert_equal_bits
from tests.conformance.sweep.draws import drawing
from tests.conformance.sweep.draws.depth import drawn
from tests.conformance.sweep.draws.moving import INDICES, PACKED, assert_moves_alike, bits, types
from tests.conformance.sweep.draws.program import both
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.ops.shaping.broadcast import BroadcastAttributes
from xla_contract.types.dimension_numbers import PaddingConfig, PaddingDimension
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape

Draw = st.DataObject


def an_array(data: Draw, shape: Any, element_type: E | None = None) -> Any:
    """An array of any bits, of a drawn type unless one is given."""
    return bits(element_type or data.draw(types()), shape, data.draw(drawing.seeds()))


def a_subset(data: Draw, rank: int) -> list[int]:
    """Some of the dimensions of an array, in any order."""
    order = data.draw(st.permutations(range(rank)))
    return list(order[: data.draw(st.integers(0, rank))])


@drawn(4, 150)
@given(st.data())
def test_broadcast_puts_dimensions_in_front(data: Draw) -> None:
    array = an_array(data, data.draw(drawing.dimensions(max_rank=3)))
    sizes = data.draw(drawing.dimensions(max_rank=2))
    assert_moves_alike(lambda x: ops.broadcast(x, sizes), [array])


@drawn(6, 250)
@given(st.data())
def test_broadcast_in_dim_stretches_size_one(data: Draw) -> None:
    result = data.draw(drawing.dimensions(max_rank=5))
    mapping = sorted(a_subset(data, len(result)))
    sizes = [data.draw(st.sampled_from([1, result[number]])) for number in mapping]
    array = an_array(data, sizes)
    assert_moves_alike(lambda x: ops.broadcast_in_dim(x, result, mapping), [array])


@drawn(4, 150)
@given(st.data())
def test_broadcast_maps_dimensions_in_any_order(data: Draw) -> None:
    result = data.draw(drawing.dimensions(max_rank=5, max_size=4))
    mapping = a_subset(data, len(result))
    array = an_array(data, [result[number] for number in mapping])
    attributes = BroadcastAttributes(tuple(mapping), result)
    assert_moves_alike(lambda x: x.builder.instruction(Opcode.BROADCAST, [x], attributes), [array])


@drawn(6, 250)
@given(st.data())
def test_reshape_reads_dimensions_in_the_order_stated(data: Draw) -> None:
    sizes = data.draw(drawing.dimensions(max_rank=4))
    array = an_array(data, sizes)
    new = data.draw(factors(math.prod(sizes)))
    order = data.draw(st.none() | st.permutations(range(len(sizes))))
    assert_moves_alike(lambda x: ops.reshape(x, new, order), [array])


def factors(count: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Dimensions of an array of so many elements, in rank 0 to 6."""
    if not count:
        return drawing.dimensions(1, 4).map(lambda sizes: (*sizes[1:], 0))
    primes, rest = [], count
    for prime in (2, 3, 5):
        while rest % prime == 0:
            primes.append(prime)
            rest //= prime

    @st.composite
    def grouped(draw: Any) -> tuple[int, ...]:
        rank = draw(st.integers(1 if count > 1 else 0, 5))
        sizes = [1] * rank
        for prime in primes:
            sizes[draw(st.integers(0, rank - 1))] *= prime
        return tuple(sizes)

    return grouped()


@drawn(3, 100)
@given(st.data())
def test_collapse_joins_neighbours(data: Draw) -> None:
    sizes = data.draw(drawing.dimensions(min_rank=1, max_rank=5, max_size=4))
    first = data.draw(st.integers(0, len(sizes) - 1))
    last = data.draw(st.integers(first, len(sizes) - 1))
    array = an_array(data, sizes)
    # The copy is there for the collapse of one dimension, which adds no instruction.
    assert_moves_alike(lambda x: ops.collapse(ops.copy(x), range(first, last + 1)), [array])


@drawn(4, 200)
@given(st.data())
def test_transpose(data: Draw) -> None:
    sizes = data.draw(drawing.dimensions(max_rank=5))
    permutation = data.draw(st.permutations(range(len(sizes))))
    assert_moves_alike(lambda x: ops.transpose(x, permutation), [an_array(data, sizes)])


@drawn(4, 200)
@given(st.data())
def test_reverse(data: Draw) -> None:
    sizes = data.draw(drawing.dimensions(max_rank=5))
    dimensions = a_subset(data, len(sizes))
    assert_moves_alike(lambda x: ops.rev(x, dimensions), [an_array(data, sizes)])


@drawn(5, 250)
@given(st.data())
def test_slice_with_strides(data: Draw) -> None:
    sizes = data.draw(drawing.dimensions(max_size=8))
    starts = [data.draw(st.integers(0, size)) for size in sizes]
    limits = [data.draw(st.integers(s, size)) for s, size in zip(starts, sizes, strict=True)]
    strides = [data.draw(st.integers(1, 4) | st.just(100)) for _ in sizes]
    array = an_array(data, sizes)
    assert_moves_alike(lambda x: ops.slice(x, starts, limits, strides), [array])


def start_indices(data: Draw, rank: int) -> list[Any]:
    """A scalar for each dimension, inside, outside, negative, at the ends of its type."""
    element_type = data.draw(st.sampled_from(INDICES))
    info = np.iinfo(element_type.dtype)  # type: ignore[arg-type]
    low, high = int(info.min), int(info.max)
    near = st.integers(max(low, -4), 9)
    number = near | st.sampled_from([low, low + 1, high - 1, high])
    return [np.array(data.draw(number), element_type.dtype) for _ in range(rank)]


@drawn(6, 300)
@given(st.data())
def test_dynamic_slice_moves_the_box_inside(data: Draw) -> None:
    sizes = data.draw(drawing.dimensions())
    box = [data.draw(st.integers(0, size)) for size in sizes]
    starts = start_indices(data, len(sizes))
    assert_moves_alike(lambda x, *i: ops.dynamic_slice(x, i, box), [an_array(data, sizes), *starts])


@drawn(6, 300)
@given(st.data())
def test_dynamic_update_slice_moves_the_box_inside(data: Draw) -> None:
    sizes = data.draw(drawing.dimensions())
    box = [data.draw(st.integers(0, size)) for size in sizes]
    array = an_array(data, sizes)
    update = an_array(data, box, E.from_dtype(array.dtype))
    starts = start_indices(data, len(sizes))
    assert_moves_alike(lambda x, u, *i: ops.dynamic_update_slice(x, u, i), [array, update, *starts])


@drawn(6, 300)
@given(st.data())
def test_pad_with_negative_edges_and_interior(data: Draw) -> None:
    sizes = data.draw(drawing.dimensions(max_rank=3))
    paddings = []
    for size in sizes:
        interior = data.draw(st.integers(0, 3))
        spread = size + max(size - 1, 0) * interior
        low = data.draw(st.integers(-spread - 2, 4))
        high = data.draw(st.integers(-spread - low, 4 + max(0, -spread - low)))
        paddings.append(PaddingDimension(low, high, interior))
    config = PaddingConfig(tuple(paddings))
    array = an_array(data, sizes)
    value = an_array(data, (), E.from_dtype(array.dtype))
    assert_moves_alike(lambda x, v: ops.pad(x, v, config), [array, value])


@drawn(4, 150)
@given(st.data())
def test_concatenate(data: Draw) -> None:
    sizes = list(data.draw(drawing.dimensions(min_rank=1)))
    dimension = data.draw(st.integers(0, len(sizes) - 1))
    element_type = data.draw(types())
    arrays = []
    for _ in range(data.draw(st.integers(1, 5))):
        sizes[dimension] = data.draw(st.integers(0, 4))
        arrays.append(an_array(data, sizes, element_type))
    assert_moves_alike(lambda *parts: ops.concat_in_dim(parts, dimension), arrays, as_bytes=PACKED)


@drawn(5, 200)
@given(st.data())
def test_iota_counts_in_every_type(data: Draw) -> None:
    sizes = list(data.draw(drawing.dimensions(min_rank=1, max_rank=3)))
    dimension = data.draw(st.integers(0, len(sizes) - 1))
    # Long enough to leave the range of types of 4 and 8 bits.
    sizes[dimension] = data.draw(st.integers(0, 20) | st.sampled_from([70, 300]))
    element_type = data.draw(st.sampled_from((*drawing.EVERY[1:], E.S2, E.U2)))
    shape = Shape.array(element_type, sizes)
    ((ours, theirs),) = both(lambda x: x.builder.iota(shape, dimension), [np.float32(0)])
    assert_equal_bits(ours, theirs)


@drawn(4, 150)
@given(st.data())
def test_select_takes_a_scalar_or_a_whole_predicate(data: Draw) -> None:
    sizes = data.draw(drawing.dimensions())
    chooser = an_array(data, data.draw(st.sampled_from([sizes, ()])), E.PRED)
    element_type = data.draw(types())
    sides = [an_array(data, sizes, element_type) for _ in range(2)]
    assert_moves_alike(ops.select, [chooser, *sides])


@drawn(4, 120)
@given(st.data())
def test_tuples_are_put_together_and_taken_apart(data: Draw) -> None:
    arrays = [
        an_array(data, data.draw(drawing.dimensions(max_rank=2)))
        for _ in range(data.draw(st.integers(1, 4)))
    ]
    choices = data.draw(st.lists(st.integers(0, len(arrays)), max_size=4))

    def program(*parts: Op) -> Op:
        nested = ops.tuple([ops.tuple(parts), *parts])
        inner = ops.get_tuple_element(nested, 0)
        return ops.tuple(
            [
                ops.get_tuple_element(nested, choice)
                if choice
                else ops.get_tuple_element(inner, len(parts) - 1)
                for choice in choices
            ],
            parts[0].builder,
        )

    assert_moves_alike(program, arrays)


@drawn(4, 150)
@given(st.data())
def test_a_chain_of_moves(data: Draw) -> None:
    sizes = data.draw(drawing.dimensions(min_rank=1, max_rank=4, max_size=4))
    array = an_array(data, sizes)
    steps = data.draw(st.lists(st.sampled_from(list(STEPS)), min_size=2, max_size=6))
    seed = data.draw(drawing.seeds())

    def program(x: Op) -> Op:
        random = np.random.default_rng(seed)
        for step in steps:
            x = STEPS[step](x, random)
        return ops.copy(x)

    assert_moves_alike(program, [array], as_bytes=PACKED)


def _strided(x: Op, random: np.random.Generator) -> Op:
    strides = [int(n) for n in random.integers(1, 3, x.shape.rank)]
    return ops.slice(x, [0] * x.shape.rank, x.shape.dimensions, strides)


def _padded(x: Op, random: np.random.Generator) -> Op:
    zero = x.builder.constant(np.zeros((), x.shape.element_type.dtype))
    amounts = [PaddingDimension(*map(int, random.integers(0, 2, 3))) for _ in x.shape.dimensions]
    return ops.pad(x, zero, PaddingConfig(tuple(amounts)))


STEPS: dict[str, Any] = {
    "transpose": lambda x, random: ops.transpose(x, random.permutation(x.shape.rank)),
    "reverse": lambda x, random: ops.rev(x, [int(random.integers(x.shape.rank))]),
    "flatten": lambda x, random: ops.reshape(x, [math.prod(x.shape.dimensions)]),
    "broadcast": lambda x, random: ops.broadcast(x, [2]) if x.shape.rank < 5 else x,
    "double": lambda x, random: ops.concat_in_dim([x, x], int(random.integers(x.shape.rank))),
    "strided": _strided,
    "padded": _padded,
}
