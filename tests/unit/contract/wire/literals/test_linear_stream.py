"""Arrays read and written by parts, against their whole memory."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.element_type import ElementType
from xla_contract.types.layout import Layout, PaddingValue
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.linear_stream import LinearReader, LinearWriter
from xla_contract.wire.literals.value_proto import memory_of

TYPES = [each for each in ElementType if each.is_array]


def _literal(element_type: ElementType, dimensions: tuple[int, ...], layout: Layout) -> Literal:
    shape = Shape.array(element_type, dimensions).with_layout(layout)
    count = int(np.prod(layout.padded_dimensions or dimensions, dtype=np.int64))
    random = np.random.default_rng(count)
    size = count * element_type.byte_width
    top = 2 if element_type is ElementType.PRED else 1 << min(8, element_type.bit_width)
    flat = random.integers(0, top, size, np.uint8).view(element_type.dtype)
    return Literal.from_linear_memory(shape, flat)


def _cuts(size: int, seed: int) -> list[int]:
    random = np.random.default_rng(seed)
    return sorted({0, size, *random.integers(0, size + 1, 4).tolist()})


@given(
    st.sampled_from(TYPES),
    st.lists(st.integers(0, 5), max_size=4).map(tuple),
    st.randoms(use_true_random=False),
)
def test_parts_join_to_the_whole_memory_and_back(element_type, dimensions, random):
    order = list(range(len(dimensions)))
    random.shuffle(order)
    literal = _literal(element_type, dimensions, Layout(tuple(order)))
    whole = memory_of(literal).tobytes()
    reader = LinearReader(literal)
    memory = np.full(reader.size, 0xA5, np.uint8)
    writer = LinearWriter(literal.shape, memory)
    cuts = _cuts(reader.size, random.randrange(1000))
    for start, stop in itertools.pairwise(cuts):
        part = reader.part(start, stop)
        assert bytes(part) == whole[start:stop]
        writer.write(start, part)
    assert reader.size == len(whole)
    assert writer.literal() == literal


@given(st.integers(0, 2**31))
def test_slices_are_gathered_without_a_copy_of_the_whole(seed):
    base = np.arange(4 * 6 * 10, dtype=np.float32).reshape(4, 6, 10)
    strided = base[::2, 1:5, ::3]
    literal = Literal.from_numpy(strided, copy=False)
    reader = LinearReader(literal)
    cuts = _cuts(reader.size, seed)
    parts = [bytes(reader.part(a, b)) for a, b in itertools.pairwise(cuts)]
    assert b"".join(parts) == strided.tobytes()


def test_padding_travels_with_the_array():
    layout = Layout((1, 0), padded_dimensions=(3, 4), padding_value=PaddingValue.ONE_PAD)
    shape = Shape.array(ElementType.F32, (2, 3)).with_layout(layout)
    literal = Literal.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3), shape)
    reader = LinearReader(literal)
    assert reader.size == 48
    memory = np.empty(48, np.uint8)
    writer = LinearWriter(shape, memory)
    writer.write(0, reader.part(0, 7))
    writer.write(7, reader.part(7, 48))
    assert memory.view(np.float32).tolist() == [0, 1, 2, 1, 3, 4, 5, 1, 1, 1, 1, 1]
    assert writer.literal() == literal


def test_bits_without_meaning_are_dropped():
    shape = Shape.parse("s4[3]{0}")
    memory = np.empty(3, np.uint8)
    writer = LinearWriter(shape, memory)
    writer.write(0, memoryview(b"\xf1\x7f\x08"))
    assert memory.tolist() == [1, 15, 8]
    assert writer.literal().value.astype(np.int8).tolist() == [1, -1, -8]
    negative = Literal.from_numpy(np.array([-1, -8, 7]).astype(ml_dtypes.int4))
    assert bytes(LinearReader(negative).part(0, 3)) == b"\x0f\x08\x07"


def test_a_pred_is_0_or_1():
    memory = np.zeros(4, np.uint8)
    writer = LinearWriter(Shape.parse("pred[4]{0}"), memory)
    writer.write(0, memoryview(b"\1\0"))
    with pytest.raises(InvalidArgumentError, match="must be a byte of 0 or 1, got 2"):
        writer.write(2, memoryview(b"\1\2"))
    assert memory.tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("shape", ["(f32[2]{0})", "f32[2]", "token[]"])
def test_only_arrays_with_layouts_are_written(shape):
    with pytest.raises(InvalidArgumentError):
        LinearWriter(Shape.parse(shape), np.empty(8, np.uint8))
