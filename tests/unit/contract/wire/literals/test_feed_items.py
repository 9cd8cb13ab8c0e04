import numpy as np
import pytest

from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import xla_extension_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.literals import feed_items
from xla_contract.wire.literals.feed_items import FeedItemDecoder, FeedItemEncoder, items_part
from xla_contract.wire.literals.value_proto import value_to_proto
from xla_contract.wire.shape_proto import shape_to_proto

LITERALS = [
    Literal.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3)),
    Literal.from_numpy(np.arange(6, dtype=np.int16).reshape(2, 3), Shape.parse("s16[2,3]{0,1}")),
    Literal.from_numpy(np.array([True, False])),
    Literal.from_numpy(np.float64(7)),
    Literal.from_numpy([1, 2, 3], Shape.parse("s4[3]")),
    Literal.from_numpy(np.ones(200, np.int32), Shape.parse("s32[<=300]")),
    Literal.from_numpy(np.zeros((0, 3), np.float32)),
    Literal.from_numpy((np.arange(3), (np.float32(1), np.array([2j])))),
    Literal.from_numpy(()),
]


def _parsed(part: bytes) -> list[xla_extension_pb2.FeedItem]:
    both = [
        message.FromString(part).items.items
        for message in (xla_extension_pb2.InfeedRequest, xla_extension_pb2.OutfeedResponse)
    ]
    assert both[0] == both[1]
    return list(both[0])


@pytest.mark.parametrize("literal", LITERALS, ids=lambda literal: str(literal.shape))
@pytest.mark.parametrize("is_declared", [True, False])
def test_what_is_written_is_what_protobuf_reads(literal, is_declared):
    declared = literal.shape if is_declared else None
    encoder, decoder = FeedItemEncoder(declared), FeedItemDecoder(declared)
    part = items_part([(1, encoder.value(literal)), (2**40, encoder.value(literal))])
    items = _parsed(part)
    assert [item.sequence for item in items] == [1, 2**40]
    third = encoder.value(literal)
    assert xla_extension_pb2.Value.FromString(third) == items[0].value
    for item in items:
        assert item.value.HasField("shape") is not is_declared
        assert decoder.literal(item.value) == literal


@pytest.mark.parametrize("literal", LITERALS, ids=lambda literal: str(literal.shape))
def test_values_of_other_writers_are_read(literal):
    for declared in (None, literal.shape, Shape.parse("u8[7]{0}")):
        value = value_to_proto(literal)
        assert FeedItemDecoder(declared).literal(value) == literal


def test_the_memory_of_a_message_is_shared_and_read_only():
    declared = Shape.parse("f32[4]{0}")
    value = xla_extension_pb2.Value(data=np.arange(4, dtype=np.float32).tobytes())
    read = FeedItemDecoder(declared).literal(value).value
    assert not read.flags.writeable
    np.testing.assert_array_equal(read, np.arange(4))


@pytest.mark.parametrize("size", [0, 15, 17])
def test_data_must_be_as_long_as_the_shape_says(size):
    for declared in (Shape.parse("f32[4]{0}"), None):
        value = xla_extension_pb2.Value(data=bytes(size))
        if declared is None:
            value.shape.CopyFrom(shape_to_proto(Shape.parse("f32[4]{0}")))
        with pytest.raises(InvalidArgumentError, match=f"must hold 16 bytes, got {size}"):
            FeedItemDecoder(declared).literal(value)


def test_an_array_has_neither_elements_nor_sizes():
    declared = Shape.parse("f32[1]{0}")
    value = xla_extension_pb2.Value(data=bytes(4))
    value.dynamic_sizes.append(2)
    with pytest.raises(InvalidArgumentError, match="dynamic_sizes"):
        FeedItemDecoder(declared).literal(value)
    value = xla_extension_pb2.Value(data=bytes(4))
    value.elements.add()
    with pytest.raises(InvalidArgumentError, match="elements"):
        FeedItemDecoder(declared).literal(value)


def test_a_value_without_shape_needs_a_declared_one():
    with pytest.raises(InvalidArgumentError, match="must have a shape"):
        FeedItemDecoder().literal(xla_extension_pb2.Value(data=bytes(4)))


def test_what_a_value_uses_of_a_credit():
    literal = LITERALS[7]
    value = xla_extension_pb2.Value.FromString(FeedItemEncoder().value(literal))
    assert feed_items.array_count(value) == 3
    assert feed_items.data_byte_size(value) == 3 * 8 + 4 + 16
    assert feed_items.array_count(value_to_proto(Literal.from_numpy(()))) == 1
