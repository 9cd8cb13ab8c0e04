import ctypes

import numpy as np
import pytest

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_host.aligned import aligned_empty
from xla_server.backends.host_buffer import HostBuffer
from xla_server.backends.platform import Device
from xla_server.runtime.blocks import BlockPool, block_size

DEVICE = Device(0, "cpu")
ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


def at(address: int, count: int) -> list[float]:
    return list((ctypes.c_float * count).from_address(address))


def of_block(array: np.ndarray, shape: Shape) -> HostBuffer:  # type: ignore[type-arg]
    block = BlockPool().allocate(block_size(array.nbytes))
    block.array(shape)[...] = array
    return HostBuffer.of_block(block, shape, DEVICE)


def test_the_address_is_that_of_the_literals_own_memory_where_it_is_dense() -> None:
    literal = Literal.from_numpy(ROWS)
    buffer = HostBuffer.of_literal(literal, DEVICE)
    assert buffer.address == literal.value.ctypes.data
    assert buffer.to_literal() is literal


def test_an_array_in_another_order_is_laid_out_once() -> None:
    shape = Shape.parse("f32[2,3]{0,1}")
    flat = np.asfortranarray(ROWS).ravel(order="K")
    buffer = HostBuffer.of_literal(Literal.from_linear_memory(shape, flat), DEVICE)
    address = buffer.address
    assert at(address, 6) == ROWS.ravel().tolist()
    assert buffer.address == address == buffer.literal.value.ctypes.data
    assert buffer.shape == shape
    np.testing.assert_array_equal(buffer.to_literal().linear_memory(), flat)


def test_a_block_is_a_read_only_value_in_the_layout_of_its_shape() -> None:
    buffer = of_block(ROWS, Shape.parse("f32[2,3]{0,1}"))
    np.testing.assert_array_equal(buffer.value, ROWS)
    assert not buffer.value.flags.writeable  # type: ignore[union-attr]
    assert buffer.to_literal().linear_memory().tolist() == ROWS.T.ravel().tolist()
    row_major = Shape.parse("f32[2,3]{1,0}")
    assert buffer.to_literal(row_major).linear_memory().tolist() == ROWS.ravel().tolist()
    with pytest.raises(InvalidArgumentError, match="compatible"):
        buffer.to_literal(Shape.parse("f32[3,2]"))


def test_a_tuple_is_made_of_its_elements() -> None:
    part = Shape.parse("f32[2,3]{1,0}")
    elements = (of_block(ROWS, part), HostBuffer.of_literal(Literal.token(), DEVICE))
    shape = Shape.tuple_of([part, Shape.token()])
    buffer = HostBuffer.of_elements(elements, shape, DEVICE)
    assert buffer.elements is elements
    np.testing.assert_array_equal(buffer.to_literal().elements[0].value, ROWS)


def test_another_shape_shares_the_memory() -> None:
    for buffer in (
        of_block(ROWS, Shape.parse("f32[2,3]{1,0}")),
        HostBuffer.of_literal(Literal.from_numpy(ROWS), DEVICE),
    ):
        other = buffer.as_shape(Shape.parse("f32[2,3]{0,1}"), DEVICE)
        assert other.address == buffer.address
        np.testing.assert_array_equal(other.value, ROWS)


def test_memory_shared_by_two_buffers_has_no_sole_owner() -> None:
    buffer = of_block(ROWS, Shape.parse("f32[2,3]{1,0}"))
    assert buffer.is_sole_owner
    other = buffer.as_shape(buffer.shape, DEVICE)
    assert not buffer.is_sole_owner
    del other
    assert buffer.is_sole_owner
    assert not HostBuffer.of_literal(Literal.from_numpy(ROWS), DEVICE).is_sole_owner


def placed(literal: Literal) -> HostBuffer:
    return HostBuffer.placed(literal, DEVICE, BlockPool())


def test_what_lies_askew_or_in_another_order_is_placed_in_one_copy() -> None:
    received = np.frombuffer(b"x" + ROWS.tobytes() + ROWS.T.tobytes(), np.uint8)
    for start, text in ((1, "f32[2,3]{1,0}"), (25, "f32[2,3]{0,1}")):
        shape = Shape.parse(text)
        flat = received[start : start + 24].view(np.float32)
        buffer = placed(Literal.from_linear_memory(shape, flat))
        assert buffer.address % 64 == 0
        assert at(buffer.address, 6) == ROWS.ravel().tolist()
        assert buffer.shape == shape
        assert buffer.is_sole_owner
        assert buffer.to_literal() == Literal.from_numpy(ROWS, shape)


def test_what_lies_as_it_should_is_shared() -> None:
    array = aligned_empty((2, 3), np.float32)
    array[...] = ROWS
    literal = Literal.from_numpy(array, copy=False)
    assert placed(literal).to_literal() is literal


def test_tuples_tokens_empty_and_dynamic_arrays_are_placed_too() -> None:
    dynamic = Literal.from_numpy(ROWS[:1], Shape.parse("f32[<=2,3]"))
    askew = np.frombuffer(b"x" + ROWS.tobytes(), np.uint8)[1:].view(np.float32)
    dynamic_askew = Literal.from_linear_memory(dynamic.shape, askew, (1, 3))
    literal = Literal.tuple_of(
        [Literal.token(), Literal.from_numpy(ROWS[:0]), dynamic_askew, Literal.tuple_of([])]
    )
    buffer = placed(literal)
    assert buffer.to_literal() == literal
    assert buffer.elements[2].address % 64 == 0
    assert buffer.elements[2].literal.dynamic_sizes == (1, 3)
