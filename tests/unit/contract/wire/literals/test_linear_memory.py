import contextlib
import itertools

import numpy as np
import pytest

from tests.unit.threads import no_threads
from xla_contract.errors import InvalidArgumentError
from xla_contract.types.element_type import ElementType
from xla_contract.types.layout import Layout, PaddingValue
from xla_contract.types.literal import Literal, storage
from xla_contract.types.shape import Shape
from xla_contract.wire.literals import linear_memory
from xla_contract.wire.literals.linear_memory import (
    is_row_major,
    literal_in_memory,
    read_linear_memory,
    write_linear_memory,
)

TYPES = [each for each in ElementType if each.is_array]


def random_literal(element_type, dimensions, layout=None):
    shape = Shape.array(element_type, dimensions)
    shape = shape.with_default_layout() if layout is None else shape.with_layout(layout)
    random = np.random.default_rng(int(element_type))
    bits = random.integers(0, 256, shape.element_count * element_type.byte_width, np.uint8)
    if element_type is ElementType.PRED:
        bits &= 1
    if element_type.bit_width < 8:
        bits &= (1 << element_type.bit_width) - 1
    array = bits.view(element_type.dtype).reshape(dimensions)
    return Literal.from_numpy(array, shape)


def written(literal):
    memory = np.full(literal.shape.byte_size, 0xAA, np.uint8)
    write_linear_memory(literal, memory)
    return memory


@pytest.mark.parametrize("element_type", TYPES)
@pytest.mark.parametrize("dimensions", [(), (5,), (3, 4), (2, 3, 4), (3, 0)])
def test_every_type_and_layout_lies_as_the_literal_says(element_type, dimensions):
    for order in itertools.permutations(range(len(dimensions))):
        literal = random_literal(element_type, dimensions, Layout(order))
        memory = written(literal)
        expected = storage(literal.linear_memory(), element_type)
        assert memory.tobytes() == expected.astype(expected.dtype.newbyteorder("<")).tobytes()
        assert read_linear_memory(literal.shape, memory) == literal


@pytest.mark.parametrize("threads", [contextlib.nullcontext, no_threads])
@pytest.mark.parametrize("dimensions", [(7,), (1, 1, 5, 3), (2, 3, 4)])
def test_large_arrays_are_copied_by_two_threads_or_by_one(monkeypatch, dimensions, threads):
    monkeypatch.setattr(linear_memory, "SPLIT_BYTES", 1)
    monkeypatch.setattr(linear_memory, "_processors", lambda: 2)
    for order in itertools.permutations(range(len(dimensions))):
        literal = random_literal(ElementType.F64, dimensions, Layout(order))
        with threads():
            memory = written(literal)
        assert memory.tobytes() == literal.linear_memory().tobytes()
        assert read_linear_memory(literal.shape, memory) == literal


def test_padding_is_written_and_dropped():
    layout = Layout((0, 1), (4, 5), PaddingValue.ONE_PAD)
    literal = random_literal(ElementType.S16, (3, 4), layout)
    memory = written(literal)
    assert memory.view("<i2").tolist() == literal.linear_memory().tolist()
    assert read_linear_memory(literal.shape, memory) == literal


def test_bits_that_mean_nothing_are_dropped_both_ways():
    shape = Shape.array(ElementType.U4, (4,), (0,))
    array = np.array([0x1F, 2, 0xF3, 4], np.uint8).view(ElementType.U4.dtype)
    assert written(Literal.from_numpy(array, shape)).tolist() == [0xF, 2, 3, 4]
    read = read_linear_memory(shape, np.array([0x1F, 2, 0xF3, 4], np.uint8))
    assert read.value.view(np.uint8).tolist() == [0xF, 2, 3, 4]


def test_bytes_that_are_no_truth_values_are_refused():
    shape = Shape.array(ElementType.PRED, (3,), (0,))
    with pytest.raises(InvalidArgumentError, match="0 or 1, got 200"):
        read_linear_memory(shape, np.array([0, 200, 1], np.uint8))


def test_what_was_read_is_one_s_own_and_read_only():
    literal = random_literal(ElementType.F32, (8,))
    memory = written(literal)
    out = np.empty(8, np.float32)
    read = read_linear_memory(literal.shape, memory, out=out)
    memory[:] = 0
    assert read == literal
    assert np.shares_memory(read.value, out)
    assert not read.value.flags.writeable


def test_dynamic_sizes_are_kept():
    shape = Shape.array(ElementType.F32, (4,), (0,), (True,))
    literal = Literal.from_numpy(np.float32([1, 2]), shape)
    memory = written(literal)
    assert read_linear_memory(shape, memory, dynamic_sizes=(2,)) == literal
    with pytest.raises(InvalidArgumentError, match="dynamic_sizes"):
        read_linear_memory(shape, memory, dynamic_sizes=(5,))


@pytest.mark.parametrize("size", [0, 15, 17])
def test_memory_of_another_size_is_refused(size):
    literal = random_literal(ElementType.F32, (4,))
    with pytest.raises(InvalidArgumentError, match="16 bytes"):
        write_linear_memory(literal, np.empty(size, np.uint8))
    with pytest.raises(InvalidArgumentError, match="16 bytes"):
        read_linear_memory(literal.shape, np.empty(size, np.uint8))


def test_only_arrays_lie_in_memory():
    shape = Shape.tuple_of([Shape.array(ElementType.F32, (1,))])
    with pytest.raises(InvalidArgumentError, match="only an array"):
        read_linear_memory(shape, np.empty(4, np.uint8))


@pytest.mark.parametrize("element_type", TYPES)
@pytest.mark.parametrize("dimensions", [(), (5,), (3, 4), (3, 0)])
def test_memory_may_be_taken_for_the_literal_itself(element_type, dimensions):
    literal = random_literal(element_type, dimensions)
    assert is_row_major(literal.shape)
    memory = written(literal)
    taken = literal_in_memory(literal.shape, memory)
    assert taken == literal
    assert not taken.value.size or np.shares_memory(taken.value, memory)
    with pytest.raises(ValueError, match="read-only"):
        taken.value[...] = taken.value


@pytest.mark.parametrize("layout", [Layout((0, 1)), Layout((1, 0), padded_dimensions=(3, 8))])
def test_memory_of_another_order_is_not_taken(layout):
    shape = Shape.array(ElementType.F32, (3, 4)).with_layout(layout)
    assert not is_row_major(shape)
    with pytest.raises(InvalidArgumentError, match="row-major"):
        literal_in_memory(shape, np.zeros(shape.byte_size, np.uint8))


def test_memory_that_is_taken_holds_values():
    shape = Shape.parse("pred[3]{0}")
    with pytest.raises(InvalidArgumentError, match="0 or 1, got 7"):
        literal_in_memory(shape, np.array([0, 7, 1], np.uint8))
    with pytest.raises(InvalidArgumentError, match="must hold 3 bytes"):
        literal_in_memory(shape, np.zeros(4, np.uint8))
    nibbles = literal_in_memory(Shape.parse("u4[2]{0}"), np.array([0xF1, 0x23], np.uint8))
    assert nibbles.value.astype(int).tolist() == [1, 3]
