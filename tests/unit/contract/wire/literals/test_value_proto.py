import ml_dtypes
import numpy as np
import pytest

from xla_contract.errors import InvalidArgumentError, ResourceExhaustedError
from xla_contract.types.element_type import ElementType
from xla_contract.types.layout import Layout
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.value_proto import memory_of, value_from_proto, value_to_proto

ARRAYS = [kind for kind in ElementType if kind.is_array]


@pytest.mark.parametrize("kind", ARRAYS, ids=lambda kind: kind.text)
def test_a_value_comes_back_bit_by_bit(kind: ElementType) -> None:
    bits = np.arange(24 * kind.dtype.itemsize, dtype=np.uint8) % 2
    array = bits.view(kind.dtype).reshape(2, 3, 4)
    for order in ((2, 1, 0), (0, 2, 1)):
        shape = Shape.array(kind, (2, 3, 4)).with_layout(Layout(order))
        literal = Literal.from_numpy(array, shape)
        value = value_to_proto(literal)
        assert len(value.data) == 24 * kind.dtype.itemsize
        assert value_from_proto(value) == literal


def test_data_is_little_endian_in_memory_order() -> None:
    shape = Shape.array(ElementType.S16, (2, 2)).with_layout(Layout((0, 1)))
    literal = Literal.from_numpy(np.array([[1, 2], [3, 4]], np.int16), shape)
    assert value_to_proto(literal).data == bytes([1, 0, 3, 0, 2, 0, 4, 0])


def test_types_under_a_byte_take_one_each_without_the_rest_of_it() -> None:
    literal = Literal.from_numpy(np.array([-1, 3], ml_dtypes.int4))
    assert memory_of(literal).tolist() == [15, 3]
    assert value_from_proto(value_to_proto(literal)) == literal


def test_memory_is_not_copied_where_it_lies_right() -> None:
    array = np.zeros(8, np.float32)
    literal = Literal.from_numpy(array, copy=False)
    assert np.shares_memory(memory_of(literal), array)


def test_tuples_and_tokens_and_dynamic_sizes_come_back() -> None:
    dynamic = Shape.array(ElementType.F32, (4,), dynamic_dimensions=(True,))
    literal = Literal.tuple_of(
        [
            Literal.token(),
            Literal.tuple_of([]),
            Literal.from_numpy(np.zeros(3, np.float32), dynamic),
        ]
    )
    assert value_from_proto(value_to_proto(literal)) == literal


def test_what_does_not_fit_is_refused() -> None:
    value = value_to_proto(Literal.from_numpy(np.zeros(3, np.float32)))
    value.data = value.data[:-1]
    with pytest.raises(InvalidArgumentError, match="must hold 12 bytes, got 11"):
        value_from_proto(value)
    value.ClearField("shape")
    with pytest.raises(InvalidArgumentError, match="must have a shape"):
        value_from_proto(value)
    preds = value_to_proto(Literal.from_numpy(np.ones(2, np.bool_)))
    preds.data = b"\1\2"
    with pytest.raises(InvalidArgumentError, match="0 or 1, got 2"):
        value_from_proto(preds)
    pair = value_to_proto(Literal.tuple_of([Literal.from_numpy(np.float32(1))]))
    pair.elements.add()
    with pytest.raises(InvalidArgumentError, match="got 2 for 1"):
        value_from_proto(pair)
    pair.data = b"12"
    with pytest.raises(InvalidArgumentError, match=r"only an array has data .*got 2 bytes and 0 s"):
        value_from_proto(pair)
    array = value_to_proto(Literal.from_numpy(np.float32(1)))
    array.elements.add()
    with pytest.raises(InvalidArgumentError, match="an array must have no elements, got 1"):
        value_from_proto(array)
    large = value_to_proto(Literal.from_numpy(np.zeros(100, np.float32)))
    with pytest.raises(ResourceExhaustedError, match="may take 100 bytes, got 400"):
        value_from_proto(large, max_bytes=100)
    bare = value_to_proto(Literal.from_numpy(np.zeros(2, np.float32)))
    bare.shape.ClearField("layout")
    with pytest.raises(InvalidArgumentError, match="must have a layout"):
        value_from_proto(bare)
