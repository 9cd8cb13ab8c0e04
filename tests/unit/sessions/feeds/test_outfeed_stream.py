import threading
from typing import Any

import numpy as np
import pytest

from tests.unit.sessions.feeds.jobs import device_feeds
from tests.unit.waiting import waits
from xla_contract.errors import AbortedError, FailedPreconditionError, InvalidArgumentError
from xla_contract.types.layout import Layout
from xla_contract.types.shape import Shape
from xla_server.execution.cancellation import Cancellation
from xla_server.sessions.feeds.device_feeds import DeviceFeeds
from xla_server.sessions.feeds.feed_queue import MAX_FRONT
from xla_server.sessions.feeds.infeed_stream import Credit
from xla_server.sessions.feeds.item_conversion import items_of_value, literal_of
from xla_server.sessions.feeds.outfeed_stream import BATCH_BYTES, OutfeedStream
from xla_server.sessions.feeds.queue_entries import FeedClient

SCALAR = Shape.parse("s32[]")
VECTOR = Shape.parse("f32[4]")
PAIR = Shape.tuple_of([SCALAR, VECTOR])


def _feeds(items: int = 8) -> DeviceFeeds:
    return device_feeds(items)


def _attach(
    feeds: DeviceFeeds,
    declared: Shape | None = None,
    begin: int = 0,
    *,
    items: int = 100,
    size: int = 1000,
    cancellation: Cancellation | None = None,
) -> OutfeedStream:
    credit = Credit(items, size)
    return feeds.outfeed.attach(declared, begin, credit, cancellation or Cancellation())


def _put(feeds: DeviceFeeds, value: Any, shape: Shape = SCALAR) -> list[Any]:
    reported: list[Any] = []
    value = np.int32(value) if shape is SCALAR else value
    items = items_of_value(value, shape)
    user = FeedClient("train", "outfeed.4")
    feeds.outfeed.queue.put(items, Cancellation(), reported.append, user)
    return reported


def _batch(stream: OutfeedStream) -> list[tuple[int, Any]] | None:
    """The next batch, which must be there."""
    batches: list[Any] = []

    def read() -> None:
        try:
            batch = stream.next_batch()
            batches.append(None if batch is None else [(n, value.to_numpy()) for n, value in batch])
        except Exception as error:
            batches.append(error)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(100)
    assert batches
    if isinstance(batches[0], Exception):
        raise batches[0]
    return batches[0]


def _waits(stream: OutfeedStream) -> threading.Thread:
    reader = threading.Thread(target=stream.next_batch, daemon=True)
    reader.start()
    assert waits(reader)
    return reader


def test_items_come_in_order_numbered_as_many_as_there_is_credit_for():
    feeds = _feeds()
    for n in range(5):
        _put(feeds, n)
    stream = _attach(feeds, items=3)
    assert stream.next_sequence == 1
    assert _batch(stream) == [(1, 0), (2, 1), (3, 2)]
    reader = _waits(stream)
    assert feeds.outfeed.queue.size[0] == 5
    assert len(feeds.outfeed.queue) == 2
    stream.add_credit(Credit(1, 0))
    reader.join(100)
    assert len(feeds.outfeed.queue) == 1


def test_an_item_may_use_more_bytes_than_are_left():
    feeds = _feeds()
    for _ in range(3):
        _put(feeds, np.zeros(4, np.float32), VECTOR)
    stream = _attach(feeds, size=17)
    assert len(_batch(stream) or []) == 2
    reader = _waits(stream)
    stream.end()
    reader.join(100)
    assert not reader.is_alive()


def test_a_message_holds_no_more_than_it_may_but_for_one_large_item():
    feeds = device_feeds(8, 10 * BATCH_BYTES)
    half = Shape.parse(f"u8[{BATCH_BYTES // 2}]")
    large = Shape.parse(f"u8[{2 * BATCH_BYTES}]")
    for shape in (half, large, half, half, half):
        _put(feeds, np.zeros(shape.dimensions, np.uint8), shape)
    stream = _attach(feeds, size=10 * BATCH_BYTES)
    numbers = [[number for number, _ in _batch(stream) or []] for _ in range(4)]
    assert numbers == [[1], [2], [3, 4], [5]]


def test_padding_that_a_client_asks_for_counts_as_sent():
    feeds = _feeds()
    for _ in range(3):
        _put(feeds, np.zeros(4, np.float32), VECTOR)
    padded = VECTOR.with_layout(Layout((0,), (BATCH_BYTES // 4,)))
    stream = _attach(feeds, padded, size=BATCH_BYTES + 1)
    assert [len(_batch(stream) or []) for _ in range(2)] == [1, 1]
    reader = _waits(stream)
    stream.end()
    reader.join(100)


def test_what_is_not_acknowledged_uses_capacity_and_comes_again():
    feeds = _feeds(items=2)
    _put(feeds, 0)
    _put(feeds, 1)
    blocked = _put(feeds, 2)
    stream = _attach(feeds)
    assert _batch(stream) == [(1, 0), (2, 1)]
    assert not blocked
    stream.acknowledge(1)
    assert blocked == [None]
    stream.end()
    assert _batch(_attach(feeds)) == [(2, 1), (3, 2)]
    assert _batch(_attach(feeds, begin=3)) == [(3, 2)]
    assert feeds.outfeed.sequence == 1


def test_the_front_is_what_comes_next():
    feeds = _feeds()
    _put(feeds, 0)
    _put(feeds, (np.int32(1), np.zeros(4, np.float32)), PAIR)
    stream = _attach(feeds, items=1)
    assert _batch(stream) == [(1, 0)]
    assert feeds.outfeed.front() == [SCALAR, VECTOR]
    _waits(stream)
    stream.end()
    # Values that the client may not have come again.
    assert feeds.outfeed.front() == [SCALAR, SCALAR, VECTOR]
    again = _attach(feeds, items=0)
    assert feeds.outfeed.front() == [SCALAR, SCALAR, VECTOR]
    again.add_credit(Credit(1, 100))
    _batch(again)
    again.acknowledge(1)
    again.end()
    assert feeds.outfeed.front() == [SCALAR, VECTOR]


def test_the_front_is_of_so_many():
    feeds = _feeds(items=2 * MAX_FRONT)
    for number in range(2 * MAX_FRONT):
        _put(feeds, number)
    stream = _attach(feeds, items=MAX_FRONT + 3)
    assert len(feeds.outfeed.front()) == MAX_FRONT
    _batch(stream)
    assert len(feeds.outfeed.front()) == MAX_FRONT - 3
    stream.end()
    assert len(feeds.outfeed.front()) == MAX_FRONT


@pytest.mark.parametrize("begin", [1, 3])
def test_a_stream_begins_behind_what_was_acknowledged_and_at_what_is_next(begin):
    feeds = _feeds()
    _put(feeds, 0)
    stream = _attach(feeds)
    _batch(stream)
    stream.acknowledge(1)
    with pytest.raises(FailedPreconditionError, match=f"between 2 and 2, got {begin}"):
        _attach(feeds, begin=begin)
    assert _attach(feeds, begin=2).next_sequence == 2


def test_what_a_client_may_not_say():
    feeds = _feeds()
    stream = _attach(feeds)
    with pytest.raises(InvalidArgumentError, match="up to 0, got 1"):
        stream.acknowledge(1)
    with pytest.raises(InvalidArgumentError, match="negative"):
        stream.add_credit(Credit(-1, 0))
    with pytest.raises(InvalidArgumentError, match="negative"):
        _attach(feeds, size=-1)
    with pytest.raises(InvalidArgumentError, match="empty tuple"):
        _attach(feeds, Shape.tuple_of([]))


def test_values_come_as_they_were_put_or_as_they_are_declared():
    feeds = _feeds()
    vector = np.arange(4, dtype=np.float32)
    for _ in range(2):
        _put(feeds, (np.int32(7), vector), PAIR)
    stream = _attach(feeds, items=2)
    [(_, (number, array))] = _batch(stream) or []
    assert number == 7
    np.testing.assert_array_equal(array, vector)
    stream.acknowledge(1)
    parts = _attach(feeds, SCALAR)
    assert _batch(parts) == [(2, 7)]
    with pytest.raises(InvalidArgumentError, match=r"got f32\[4\] in the queue and s32"):
        _batch(parts)
    assert len(feeds.outfeed.queue) == 1


def test_what_comes_again_has_the_shape_declared_or_stays():
    feeds = _feeds()
    _put(feeds, 1)
    _batch(_attach(feeds))
    with pytest.raises(InvalidArgumentError, match=r"got s32\[\] for f32\[4\]"):
        _batch(_attach(feeds, VECTOR))
    assert _batch(_attach(feeds, SCALAR)) == [(1, 1)]


def test_a_second_stream_replaces_the_first_and_nothing_is_lost():
    feeds = _feeds()
    cancellation = Cancellation()
    first = _attach(feeds, cancellation=cancellation)
    reader = _waits(first)
    second = _attach(feeds)
    reader.join(100)
    assert not reader.is_alive()
    with pytest.raises(AbortedError, match="another Outfeed stream"):
        cancellation.check()
    first.end()
    _put(feeds, 1)
    assert _batch(second) == [(1, 1)]


def test_a_closed_queue_gives_the_rest_and_ends_well_when_all_is_acknowledged():
    feeds = _feeds()
    _put(feeds, 1)
    stream = _attach(feeds)
    assert feeds.outfeed.close(discard=False) == 0
    assert _batch(stream) == [(1, 1)]
    ending: list[Any] = []
    reader = threading.Thread(target=lambda: ending.append(stream.next_batch()), daemon=True)
    reader.start()
    assert waits(reader)
    stream.acknowledge(1)
    reader.join(100)
    assert ending == [None]


def test_discarding_drops_what_is_held_too():
    feeds = _feeds()
    _put(feeds, 1)
    stream = _attach(feeds, items=1)
    _batch(stream)
    _put(feeds, 2)
    assert feeds.outfeed.close(discard=True) == 2
    assert feeds.outfeed.queue.size == (0, 0)
    assert _batch(stream) is None


def test_a_reset_forgets_what_is_held_and_numbers_go_on():
    feeds = _feeds()
    _put(feeds, 1)
    stream = _attach(feeds)
    _batch(stream)
    feeds.reset()
    _put(feeds, 2)
    assert _batch(stream) == [(2, 2)]
    assert feeds.outfeed.queue.size == (1, 4)


def test_a_call_gets_what_no_stream_has_acknowledged():
    feeds = _feeds()
    _put(feeds, 1)
    stream = _attach(feeds)
    _batch(stream)
    reported: list[Any] = []
    feeds.transfer_from_outfeed(SCALAR, Cancellation(), reported.append)
    assert not reported  # It is the stream's as long as that is there.
    stream.end()
    feeds.transfer_from_outfeed(SCALAR, Cancellation(), reported.append)
    assert literal_of(reported[0].items).to_numpy() == 1
    reported[0].keep()
    with pytest.raises(FailedPreconditionError):
        _attach(feeds, begin=2)


def test_the_word_of_a_broken_client_ends_the_stream():
    stream = _attach(_feeds())
    stream.fail(InvalidArgumentError("broken"))
    with pytest.raises(InvalidArgumentError, match="broken"):
        _batch(stream)
