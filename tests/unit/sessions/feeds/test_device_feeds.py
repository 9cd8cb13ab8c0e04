import queue
import threading
import weakref

import numpy as np
import pytest

from tests.unit.sessions.engines import shared_resources
from tests.unit.sessions.feeds.jobs import Job, device_feeds
from xla_contract.errors import (
    AbortedError,
    CancelledError,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnimplementedError,
    XlaError,
)
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.decoding import UndecodedLiteral
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.feed_protocol import FeedUse
from xla_server.ops.evaluation import Value
from xla_server.sessions.feeds.channel_table import ChannelTable, ChannelType
from xla_server.sessions.feeds.device_feeds import (
    CHANNEL_SHARE,
    MAX_HOST_CHANNELS,
    DeviceFeeds,
    FeedPair,
    ProgramFeeds,
)
from xla_server.sessions.feeds.item_conversion import literal_of
from xla_server.sessions.feeds.queue_entries import BorrowedItems
from xla_server.sessions.limits.server_limits import Quotas
from xla_server.sessions.session import Session
from xla_server.sessions.values.handles import HandleFactory, HandleKind

SCALAR = Shape.parse("s32[]")
VECTOR = Shape.parse("f32[4]")
PAIR = Shape.tuple_of([SCALAR, VECTOR])
NUMBERS = np.arange(4, dtype=np.float32)


def _feeds(items: int = 2, size: int = 1000) -> DeviceFeeds:
    return device_feeds(items, size)


def _number(value: int) -> Literal:
    return Literal.from_numpy(np.int32(value))


def _transfer(feeds: FeedPair, literal: Literal, cancellation: Cancellation) -> None:
    """TransferToInfeed, waited for."""
    outcomes: queue.SimpleQueue[XlaError | None] = queue.SimpleQueue()
    feeds.transfer_to_infeed(literal, cancellation, outcomes.put)
    error = outcomes.get()
    if error is not None:
        raise error


def _put(feeds: FeedPair, value: object) -> None:
    _transfer(feeds, Literal.from_numpy(value), Cancellation())


def _program(feeds: DeviceFeeds) -> ProgramFeeds:
    return feeds.bound_to("train")


def _take_in(feeds: DeviceFeeds, shape: Shape, cancellation: Cancellation) -> object:
    return _program(feeds).take_infeed(shape, cancellation, FeedUse("in"))


def _take(feeds: DeviceFeeds, shape: Shape = SCALAR) -> object:
    return _take_in(feeds, shape, Cancellation())


def _put_out(
    feeds: DeviceFeeds, value: Value, shape: Shape, cancellation: Cancellation | None = None
) -> None:
    _program(feeds).put_outfeed(value, shape, cancellation or Cancellation(), FeedUse("out"))


def _lent(feeds: DeviceFeeds, shape: Shape, cancellation: Cancellation) -> BorrowedItems:
    """TransferFromOutfeed as far as the loan, waited for."""
    outcomes: queue.SimpleQueue[BorrowedItems | XlaError] = queue.SimpleQueue()
    feeds.transfer_from_outfeed(shape, cancellation, outcomes.put)
    outcome = outcomes.get()
    if isinstance(outcome, XlaError):
        raise outcome
    return outcome


def _take_out(feeds: DeviceFeeds, shape: Shape, cancellation: Cancellation) -> object:
    lent = _lent(feeds, shape, cancellation)
    value = literal_of(lent.items, shape).to_numpy()
    lent.keep()
    return value


def test_first_in_first_out_through_more_than_fits():
    feeds = _feeds()

    def feed() -> None:
        for number in range(200):
            _put(feeds, np.int32(number))

    threading.Thread(target=feed, daemon=True).start()
    assert [int(_take(feeds)) for _ in range(200)] == list(range(200))


def test_a_tuple_goes_in_and_out_in_parts_or_whole():
    feeds = _feeds(items=4)
    for whole in (True, False):
        for value in [(np.int32(1), NUMBERS)] if whole else [np.int32(1), NUMBERS]:
            _put(feeds, value)
        number, vector = _take(feeds, PAIR)
        assert number == 1
        np.testing.assert_array_equal(vector, NUMBERS)
    _put(feeds, (np.int32(5), NUMBERS))
    assert _take(feeds) == 5
    np.testing.assert_array_equal(_take(feeds, VECTOR), NUMBERS)


def test_a_tuple_is_never_interleaved():
    feeds = _feeds(items=3)
    pairs = [Job(_transfer, feeds, Literal.tuple_of([_number(n)] * 2)) for n in range(8)]
    twice = Shape.tuple_of([SCALAR] * 2)
    taken = [_take(feeds, twice) for _ in pairs]
    assert sorted(int(left) for left, _ in taken) == list(range(8))
    assert all(left == right for left, right in taken)


@pytest.mark.parametrize(("items", "size"), [(2, 1000), (100, 8)])
def test_a_full_queue_makes_them_wait(items, size):
    feeds = _feeds(items, size)
    for number in range(2):
        _put(feeds, np.int32(number))
    third = Job(_transfer, feeds, _number(2))
    assert third.waits()
    assert _take(feeds) == 0
    third.ended()
    assert [int(_take(feeds)) for _ in range(2)] == [1, 2]


def test_what_is_larger_than_the_queue_goes_in_when_it_is_empty():
    feeds = _feeds(items=1, size=8)
    _put(feeds, (NUMBERS, NUMBERS))
    assert Job(_transfer, feeds, _number(1)).waits()
    _take(feeds, VECTOR)


def test_a_taker_of_more_than_fits_gets_it_part_by_part():
    feeds = _feeds(items=1)
    taker = Job(_take_in, feeds, Shape.tuple_of([SCALAR] * 3))
    for number in range(3):
        Job(_transfer, feeds, _number(number)).ended()
    assert list(map(int, taker.ended().result)) == [0, 1, 2]
    _put(feeds, np.int32(3))
    assert Job(_transfer, feeds, _number(4)).waits()


def test_another_shape_fails_the_taker_and_stays_in_the_queue():
    feeds = _feeds()
    _put(feeds, np.int32(1))
    for shape in (VECTOR, Shape.parse("f32[]"), Shape.tuple_of([VECTOR, SCALAR])):
        with pytest.raises(InvalidArgumentError, match=r"s32\[\] in the queue and f32"):
            _take(feeds, shape)
    assert _take(feeds) == 1


def test_a_cancelled_taker_loses_nothing_and_a_cancelled_putter_leaves_nothing():
    feeds = _feeds(items=1)
    for call in (_take_in, _take_out):
        Job(call, feeds, PAIR).cancelled()
    taker = Job(_take_in, feeds, PAIR)
    _put(feeds, np.int32(1))
    assert taker.waits()
    taker.cancelled()
    Job(_transfer, feeds, Literal.tuple_of([_number(8), _number(9)])).cancelled()
    assert _take(feeds) == 1
    assert Job(_take_in, feeds, SCALAR).waits()


def test_an_item_stays_when_it_is_given_back():
    feeds = _feeds()
    _put_out(feeds, np.array(7, np.int32), SCALAR)
    late = Cancellation()
    lent = _lent(feeds, SCALAR, late)
    behind = Job(_take_out, feeds, SCALAR)
    late.cancel()
    assert behind.waits()
    lent.release()
    assert behind.ended().result == 7
    lent.keep()
    assert len(feeds.outfeed.queue) == 0


def test_outfeed_waits_on_both_sides_and_gives_the_layout_asked_for():
    feeds = _feeds(items=1)
    shape = Shape.parse("f32[2,2]{0,1}")
    requested = Job(_take_out, feeds, shape)
    assert requested.waits()
    _put_out(feeds, NUMBERS.reshape(2, 2), Shape.parse("f32[2,2]"))
    np.testing.assert_array_equal(requested.ended().result, NUMBERS.reshape(2, 2))
    _put_out(feeds, (NUMBERS, np.array(1, np.int32)), Shape.tuple_of([VECTOR, SCALAR]))
    blocked = Job(_put_out, feeds, NUMBERS, VECTOR)
    assert blocked.waits()
    for shape in (VECTOR, SCALAR, VECTOR):
        _take_out(feeds, shape, Cancellation())
    blocked.ended()


def test_a_queued_part_does_not_hold_the_whole_it_was_cut_from():
    feeds = _feeds()
    whole = np.zeros(1000, np.float32)
    _put_out(feeds, whole[:4], VECTOR)
    literal = literal_of(_lent(feeds, VECTOR, Cancellation()).items, VECTOR)
    assert not np.shares_memory(literal.value, whole)


def test_reset_aborts_producers_and_keeps_consumers():
    feeds = _feeds(items=1)
    taker = Job(_take_out, feeds, SCALAR)
    _put(feeds, np.int32(1))
    putter = Job(_transfer, feeds, _number(2))
    assert putter.waits()
    feeds.reset()
    assert isinstance(putter.ended().error, AbortedError)
    assert taker.waits()
    _put_out(feeds, np.array(3, np.int32), SCALAR)
    assert taker.ended().result == 3
    _put(feeds, np.int32(4))
    assert _take(feeds) == 4


def test_what_no_queue_can_hold_is_refused():
    feeds = _feeds()
    nested = Shape.tuple_of([PAIR])
    with pytest.raises(UnimplementedError, match="infeed"):
        _take(feeds, nested)
    with pytest.raises(UnimplementedError, match="outfeed"):
        _take_out(feeds, nested, Cancellation())
    for value in ((), np.zeros((0, 3), np.float32), (np.int32(1), np.zeros(0, np.int8))):
        with pytest.raises(InvalidArgumentError):
            _put(feeds, value)


def test_only_channels_that_are_closed_and_empty_are_removed_for_others():
    handles, kind = HandleFactory(), ChannelType.HOST_TO_DEVICE
    feeds = device_feeds(size=1600, channels=ChannelTable(handles, max_items=1, max_bytes=1))

    def channel() -> FeedPair:
        return feeds.channel(handles.issue(HandleKind.HOST_TO_DEVICE_CHANNEL), kind)

    pairs = [channel() for _ in range(MAX_HOST_CHANNELS)]
    assert pairs[0].infeed.queue.max_bytes == 1600 // CHANNEL_SHARE
    with pytest.raises(ResourceExhaustedError, match="32 host channels"):
        channel()
    _put(pairs[0], np.int32(1))
    pairs[0].infeed.close(discard=False)
    with pytest.raises(ResourceExhaustedError):
        channel()
    pairs[0].infeed.close(discard=True)
    channel()
    assert pairs[0] not in feeds.pairs()


def test_a_queued_value_of_dynamic_shape_keeps_no_more_than_it_has():
    feeds = _feeds()
    shape = Shape.parse("f32[<=1000]{0}")
    whole = np.arange(1000, dtype=np.float32)
    _transfer(feeds, Literal.from_linear_memory(shape, whole, (3,)), Cancellation())
    memory = weakref.ref(whole)
    del whole
    assert memory() is None
    np.testing.assert_array_equal(_take(feeds, shape), [0, 1, 2])
    assert feeds.infeed.queue.size == (0, 0)


def test_values_that_wait_for_capacity_count_as_the_session_s():
    quotas = Quotas(device_bytes=40, queued_items=1)
    service = Session(shared_resources(1000, quotas))
    reported: list[XlaError | None] = []
    cancellation = Cancellation()

    def transfer(value: object) -> None:
        received = UndecodedLiteral(Literal.from_numpy(value))
        service.transfer_to_infeed(received, 0, None, cancellation, reported.append)

    transfer(NUMBERS)
    assert reported == [None]
    assert service.data.reserved_bytes == 0
    transfer(NUMBERS)
    transfer(NUMBERS)
    assert service.data.reserved_bytes == 32
    with pytest.raises(ResourceExhaustedError, match=r"40 bytes .* on its way to infeed with 32"):
        transfer(NUMBERS)
    with pytest.raises(InvalidArgumentError):
        transfer(np.zeros(0, np.float32))
    assert service.data.reserved_bytes == 32
    feeds = service.devices.feeds_of_replica(None, 0)
    _take(feeds, VECTOR)
    assert service.data.reserved_bytes == 16
    cancellation.cancel()
    assert len(reported) == 3
    assert isinstance(reported[2], CancelledError)
    assert service.engine.memory.used_bytes == 0
