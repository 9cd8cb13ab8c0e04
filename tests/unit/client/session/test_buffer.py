"""Values that live on a server: fetched, taken apart, given up."""

import weakref
from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.unit.client.small_programs import ONES
from xla_client.session.buffer import Buffer, unpacked
from xla_contract.errors import InvalidArgumentError, NotFoundError, UnimplementedError
from xla_contract.types.layout import Layout
from xla_contract.types.shape import Shape

MATRIX = np.arange(6, dtype=np.int32).reshape(2, 3)


def is_freed(client: xc.Client, handle: int) -> bool:
    try:
        client.adopt(handle)
    except (InvalidArgumentError, NotFoundError):
        return True
    return False


def test_jax_takes_a_buffer_where_it_is_asked_to_convert(client: xc.Client) -> None:
    import jax

    buffer = client.to_device(MATRIX)
    for array in (jax.numpy.asarray(buffer), jax.numpy.zeros((2, 3), np.int32) + buffer):
        assert isinstance(array, jax.Array)
        np.testing.assert_array_equal(array, MATRIX)
    np.testing.assert_array_equal(jax.device_get({"x": buffer})["x"], MATRIX)
    with pytest.raises(ValueError, match=r"explicitly convert your object using jax\.numpy\.array"):
        jax.device_put(buffer)


def test_a_value_comes_back_in_any_layout(either: xc.Client) -> None:
    buffer = either.to_device(MATRIX)
    assert buffer.shape == Shape.parse("s32[2,3]{1,0}")
    for layout in (None, Layout((1, 0)), Layout((0, 1))):
        literal = buffer.to_literal(layout)
        np.testing.assert_array_equal(literal.to_numpy(), MATRIX)
        assert literal.shape.layout == (layout or Layout((1, 0)))
    reported: list[tuple[int, int]] = []
    value: Any = buffer.to_numpy(progress=lambda *now: reported.append(now))
    assert not value.flags.writeable
    assert reported[-1] == (24, 24)
    with pytest.raises(InvalidArgumentError, match=r"layout|rank"):
        buffer.to_literal(Layout((0,)))


def test_it_becomes_an_array_of_numpy_by_copying(either: xc.Client) -> None:
    buffer = either.to_device(MATRIX)
    np.testing.assert_array_equal(np.asarray(buffer), MATRIX)
    assert np.asarray(buffer, np.float64).dtype == np.float64
    np.testing.assert_array_equal(np.asarray(buffer, np.float64), MATRIX)
    with pytest.raises(ValueError, match="cannot become an array without a copy"):
        np.asarray(buffer, copy=False)
    pair = either.to_device((MATRIX, ONES))
    with pytest.raises(TypeError, match=r"only an array can become a numpy array, got \(s32"):
        np.asarray(pair)


def test_it_is_compared_with_numbers_and_arrays_by_elements(either: xc.Client) -> None:
    loss, row = either.to_device(np.float32(0.5)), either.to_device([1, 2])
    assert loss == 0.5
    assert loss != 1
    assert loss < 1.0
    assert not loss > np.float32(0.5)
    assert loss >= 0.5
    assert loss <= True
    assert (row == 2).tolist() == [False, True]
    assert (row != np.array([1, 1])).tolist() == [False, True]
    assert (row > 1).tolist() == [False, True]
    # Two Buffers are compared as objects, also in lists and sets.
    assert row == row
    assert row != either.to_device([1, 2])
    assert [row, loss].index(loss) == 1
    assert len({row, loss, row}) == 2
    assert row != "text"
    with pytest.raises(TypeError, match="not supported between instances"):
        _ = row < row


def test_an_array_that_was_asked_for_can_be_written(client: xc.Client) -> None:
    """numpy's protocol: with copy=True the array is the caller's own."""
    array = np.array(client.to_device(MATRIX))
    array[0, 0] = 7
    assert array[0, 0] == 7


def test_a_tuple_comes_apart_and_stays(either: xc.Client) -> None:
    pair = either.to_device((MATRIX, ONES))
    first, second = pair.deconstruct()
    assert [str(each.shape) for each in (first, second)] == ["s32[2,3]{1,0}", "f32[4]{0}"]
    pair.delete()
    np.testing.assert_array_equal(first.to_numpy(), MATRIX)
    np.testing.assert_array_equal(second.to_numpy(), ONES)
    with pytest.raises(InvalidArgumentError, match="must be a tuple, got s32"):
        first.deconstruct()
    nested = either.to_device(((ONES,), ONES))
    with pytest.raises(UnimplementedError, match="without tuples inside"):
        nested.deconstruct()


def test_results_come_unpacked_where_they_can(either: xc.Client) -> None:
    array, nested = either.to_device(ONES), either.to_device(((ONES,), ONES))
    assert unpacked(array) is array
    assert unpacked(nested) is nested
    parts = unpacked(either.to_device((ONES, MATRIX)))
    assert isinstance(parts, tuple)
    assert [each.shape.dimensions for each in parts] == [(4,), (2, 3)]
    assert unpacked(either.to_device(())) == ()


def test_a_deleted_buffer_is_not_used(either: xc.Client) -> None:
    buffer = either.to_device(ONES)
    handle = buffer.handle
    assert repr(buffer) == "Buffer(f32[4]{0})"
    assert not buffer.is_deleted
    buffer.delete()
    buffer.delete()
    assert buffer.is_deleted
    assert repr(buffer) == "Buffer(f32[4]{0}, deleted)"
    assert is_freed(either, handle)
    for use in (lambda: buffer.handle, buffer.to_numpy, buffer.deconstruct, buffer.to_literal):
        with pytest.raises(
            InvalidArgumentError,
            match=r"^a buffer must be alive .*the deleted f32\[4\]\{0\}\nhint: delete",
        ):
            use()


@pytest.mark.parametrize("is_freed_by_server", [True, False])
def test_a_buffer_that_was_given_up_is_freed_by_its_holder(
    client: xc.Client, is_freed_by_server: bool
) -> None:
    buffer = client.to_device(ONES)
    handle = buffer.handle
    buffer.give_up(is_freed=is_freed_by_server)
    assert buffer.is_deleted
    client.free_unused()
    # The client must not free a handle that the server has freed: it may have been issued again.
    assert is_freed(client, handle) is not is_freed_by_server
    buffer.give_up(is_freed=is_freed_by_server)
    if is_freed_by_server:
        client._session.delete(handle)


def test_garbage_is_freed_with_the_next_message_about_it(client: xc.Client) -> None:
    buffer: Buffer | None = client.to_device(ONES)
    assert buffer is not None
    handle, alive = buffer.handle, weakref.ref(buffer)
    buffer = None
    assert alive() is None
    assert not is_freed(client, handle)
    client.free_unused()
    assert is_freed(client, handle)
