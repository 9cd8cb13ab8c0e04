"""Devices and their feeds, by the unary rpcs."""

from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.unit.client.small_programs import ONES, VECTOR
from xla_client import Builder, ops
from xla_contract.errors import DeadlineExceededError, InvalidArgumentError, UnimplementedError
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape


def doubling() -> xc.Computation:
    """Doubles an infeed into the outfeed, and gives its argument."""
    builder = Builder("doubling")
    x = builder.parameter(0, VECTOR)
    fed = builder.infeed(VECTOR)
    ops.outfeed(fed + fed)
    return builder.build(x)


def test_values_pass_through_a_program(either: xc.Client) -> None:
    device = either.device(0)
    assert device.ordinal == 0
    device.to_infeed([1, 2, 3, 4], VECTOR)
    either.compile(doubling())(ONES)
    value: Any = device.from_outfeed(VECTOR)
    np.testing.assert_array_equal(value, np.float32([2, 4, 6, 8]))


def test_shapes_may_be_text(either: xc.Client) -> None:
    device = either.device(0)
    device.to_infeed([1, 2, 3, 4], "f32[4]")
    either.compile(doubling())(ONES)
    with device.infeed("f32[4]") as feed:
        feed.put([5, 6, 7, 8])
    np.testing.assert_array_equal(np.asarray(device.from_outfeed("f32[4]")), [2, 4, 6, 8])
    either.compile(doubling())(ONES)
    (value,) = device.outfeed("f32[4]", count=1)
    np.testing.assert_array_equal(np.asarray(value), [10, 12, 14, 16])
    with pytest.raises(InvalidArgumentError):
        device.outfeed("f32[4")
    wrong: Any = (4,)
    with pytest.raises(TypeError, match=r"shape must say its element type too, got \(4,\)"):
        device.infeed(wrong)
    late: Any = "1s"
    with pytest.raises(TypeError, match=r"timeout must be a number of seconds or None, got '1s'"):
        device.to_infeed(ONES, timeout=late)


def test_a_value_of_another_shape_stays(either: xc.Client) -> None:
    device = either.device(0)
    device.to_infeed(ONES)
    either.compile(doubling())(ONES)
    with pytest.raises(InvalidArgumentError, match=r"s32\[4\].*f32\[4\]|f32\[4\].*s32\[4\]"):
        device.from_outfeed(Shape.parse("s32[4]"))
    value: Any = device.from_outfeed(VECTOR)
    np.testing.assert_array_equal(value, 2 * ONES)


def test_each_device_has_its_own_feeds(client: xc.Client) -> None:
    client.device(1).to_infeed(ONES)
    assert [client.device(number).feeds().infeed.items for number in range(3)] == [0, 1, 0]


def test_who_feeds_a_full_queue_waits(client: xc.Client) -> None:
    device = client.device(2)
    for _ in range(4):
        device.to_infeed(ONES)
    with pytest.raises(DeadlineExceededError):
        device.to_infeed(ONES, timeout=0.1)
    with pytest.raises(DeadlineExceededError):
        device.from_outfeed(VECTOR, timeout=0.1)
    assert device.feeds().infeed.items == 4


def test_values_must_fit_the_shape_they_are_given(either: xc.Client) -> None:
    with pytest.raises(InvalidArgumentError, match="5"):
        either.device(0).to_infeed(np.zeros(5, np.float32), VECTOR)
    with pytest.raises(UnimplementedError, match=r"tuples without tuples inside, got \(\(f32"):
        either.device(0).to_infeed(((ONES,), ONES))
    with pytest.raises(InvalidArgumentError, match="arrays and tuples of arrays, got token"):
        either.device(0).to_infeed(Literal.token())
    for use in (
        lambda: either.device(7).to_infeed(ONES),
        lambda: either.device(7).from_outfeed(VECTOR),
    ):
        with pytest.raises(InvalidArgumentError, match="below 3, got 7"):
            use()


def test_feeds_are_described_where_the_server_can(plain_client: xc.Client) -> None:
    with pytest.raises(UnimplementedError):
        plain_client.device(0).feeds()
