import ctypes

import numpy as np
import pytest

from xla_contract.errors import InvalidArgumentError
from xla_contract.literal import Literal
from xla_contract.shape import Shape
from xla_server.backends.backend import Device
from xla_server.backends.host_buffer import HostBuffer
from xla_server.runtime.blocks import BlockPool, block_size

DEVICE = Device(0, "cpu")
ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


def at(address: int, count: int) -> list[float]:
    return list((ctypes.c_float * count).from_address(address))


def of_block(array: np.ndarray, shape: Shape) -> HostBuffer:  # type: ignore[type-arg]
    block = BlockPool().take(block_size(array.nbytes))
    block.array(shape)[...] = array
    return HostBuffer.of_block(block, shape, DEVICE)


def test_the_address_is_that_of_the_literals_own_memory_where_it_is_dense() -> None:
    literal = Literal.from_numpy(ROWS)
    buffer = HostBuffer(literal, DEVICE)
    assert buffer.address == literal.value.ctypes.data
    assert buffer.to_literal() is literal


def test_an_array_in_another_order_is_laid_out_once() -> None:
    shape = Shape.parse("f32[2,3]{0,1}")
    flat = np.asfortranarray(ROWS).ravel(order="K")
    buffer = HostBuffer(Literal.from_linear_memory(shape, flat), DEVICE)
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
    elements = (of_block(ROWS, part), HostBuffer(Literal.token(), DEVICE))
    shape = Shape.tuple_of([part, Shape.token()])
    buffer = HostBuffer.of_elements(elements, shape, DEVICE)
    assert buffer.elements is elements
    np.testing.assert_array_equal(buffer.to_literal().elements[0].value, ROWS)


def test_another_shape_shares_the_memory() -> None:
    for buffer in (
        of_block(ROWS, Shape.parse("f32[2,3]{1,0}")),
        HostBuffer(Literal.from_numpy(ROWS), DEVICE),
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
    assert not HostBuffer(Literal.from_numpy(ROWS), DEVICE).is_sole_owner
