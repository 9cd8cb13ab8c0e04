"""Laws of the contract's types: what is written reads back, positions and indices agree."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import xla_data_pb2
from xla_contract.types import index
from xla_contract.types.element_type import ElementType
from xla_contract.types.layout import COMBINED, Layout, PaddingValue
from xla_contract.types.literal import Literal, storage
from xla_contract.types.shape import (
    UNBOUNDED,
    ProgramShape,
    Shape,
    parse_program_shape,
    parse_shape,
)
from xla_contract.wire.literals.proto import literal_from_proto, literal_to_proto
from xla_contract.wire.shape_proto import (
    program_shape_from_proto,
    program_shape_to_proto,
    shape_from_proto,
    shape_to_proto,
)

ARRAY_TYPES = [element_type for element_type in ElementType if element_type.is_array]
# Complex numbers have no lowest and no highest.
PADS = [PaddingValue.INVALID_PAD, PaddingValue.ZERO_PAD, PaddingValue.ONE_PAD]


@st.composite
def layouts(draw: st.DrawFn, rank: int) -> Layout:
    return Layout(
        tuple(draw(st.permutations(range(rank)))),
        tiles=draw(
            st.lists(
                st.lists(st.integers(0, 2**40) | st.just(COMBINED), max_size=3).map(tuple),
                max_size=2,
            ).map(tuple)
        ),
        element_size_in_bits=draw(st.integers(0, 64)),
        memory_space=draw(st.integers(0, 9)),
        tail_padding_alignment_in_elements=draw(st.integers(1, 4)),
    )


@st.composite
def array_shapes(draw: st.DrawFn) -> Shape:
    element_type = draw(st.sampled_from(ARRAY_TYPES))
    sizes, dynamic = [], []
    for _ in range(draw(st.integers(0, 4))):
        size = draw(st.integers(0, 2**12) | st.just(UNBOUNDED))
        sizes.append(size)
        dynamic.append(size == UNBOUNDED or draw(st.booleans()))
    layout = draw(st.none() | layouts(len(sizes)))
    if not sizes and layout == Layout(()):
        layout = None  # Text says the layout of a scalar only where there is something to say.
    return Shape(element_type, tuple(sizes), layout, tuple(dynamic))


shapes = st.recursive(
    array_shapes() | st.sampled_from([Shape.token(), Shape.opaque()]),
    lambda inner: st.lists(inner, max_size=3).map(Shape.tuple_of),
    max_leaves=6,
)


@st.composite
def small_arrays(draw: st.DrawFn) -> Shape:
    """Arrays of few elements, any type, in any layout with or without padding."""
    sizes = tuple(draw(st.lists(st.integers(0, 4), max_size=4)))
    order = tuple(draw(st.permutations(range(len(sizes)))))
    widths: tuple[int, ...] = ()
    if draw(st.booleans()):
        widths = tuple(size + draw(st.integers(0, 2)) for size in sizes)
    layout = Layout(order, widths, draw(st.sampled_from(PADS)))
    return Shape(draw(st.sampled_from(ARRAY_TYPES)), sizes, layout)


@st.composite
def arrays_with_bits(draw: st.DrawFn) -> Literal:
    shape = draw(small_arrays())
    element_type = shape.element_type
    noise = np.random.default_rng(draw(st.integers(0, 2**32)))
    raw = noise.integers(0, 256, shape.element_count * element_type.byte_width, dtype=np.uint8)
    if element_type is ElementType.PRED:
        raw &= 1
    return Literal.from_numpy(raw.view(element_type.dtype).reshape(shape.dimensions), shape)


@given(shapes)
def test_a_shape_reads_back_from_its_text(shape: Shape) -> None:
    assert parse_shape(str(shape)) == shape


@given(shapes)
def test_a_shape_reads_back_from_its_message(shape: Shape) -> None:
    assert shape_from_proto(shape_to_proto(shape)) == shape


@given(st.lists(shapes, max_size=3), shapes)
def test_a_program_shape_reads_back(parameters: list[Shape], result: Shape) -> None:
    names = tuple(f"p{number}.x" for number in range(len(parameters)))
    program = ProgramShape(tuple(parameters), result, names)
    assert parse_program_shape(str(program)) == program
    assert program_shape_from_proto(program_shape_to_proto(program)) == program


@given(small_arrays())
def test_positions_and_indices_are_inverse(shape: Shape) -> None:
    indices = list(np.ndindex(shape.dimensions))
    positions = [index.linear_index(shape, at) for at in indices]
    assert [index.multi_index(shape, at) for at in positions] == indices
    for at in set(range(index.memory_element_count(shape))).difference(positions):
        with pytest.raises(InvalidArgumentError, match=f"{at} in the padding"):
            index.multi_index(shape, at)


@given(arrays_with_bits())
def test_memory_holds_each_element_at_its_position(literal: Literal) -> None:
    memory = literal.linear_memory()
    assert memory.size == index.memory_element_count(literal.shape)
    element_type = literal.shape.element_type
    for at in np.ndindex(literal.shape.dimensions):
        here = storage(memory[[index.linear_index(literal.shape, at)]], element_type)
        assert np.array_equal(here, storage(np.array([literal.value[at]]), element_type))
    assert Literal.from_linear_memory(literal.shape, memory) == literal


@pytest.mark.parametrize("with_limit", [False, True])
@settings(max_examples=200)
@given(literal=arrays_with_bits())
def test_a_literal_reads_back_from_its_message(with_limit: bool, literal: Literal) -> None:
    limit = literal.shape.byte_size if with_limit else None
    sent = literal_to_proto(literal).SerializeToString()
    back = literal_from_proto(xla_data_pb2.LiteralProto.FromString(sent), max_bytes=limit)
    assert back == literal


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_integers_are_written_as_protobuf_writes_them(values: list[int]) -> None:
    proto = literal_to_proto(Literal.from_numpy(np.array(values, np.int64)))
    assert list(proto.s64s) == values


@given(st.text(alphabet="f32s()[]{}<=?,:T*E token1->/", max_size=30))
def test_any_text_is_a_shape_or_an_invalid_argument(text: str) -> None:
    try:
        shape = parse_shape(text)
    except InvalidArgumentError:
        return
    assert parse_shape(str(shape)).equal(shape)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_literal_or_an_error_of_the_tree(data: bytes) -> None:
    from google.protobuf.message import DecodeError

    try:
        proto = xla_data_pb2.LiteralProto.FromString(data)
    except DecodeError:
        return
    try:
        literal = literal_from_proto(proto)
    except InvalidArgumentError:
        return
    assert literal_from_proto(literal_to_proto(literal)) == literal
