import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.unit.sessions.feeds.jobs import device_feeds
from tests.unit.waiting import waits
from xla_contract.errors import (
    AbortedError,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnimplementedError,
    XlaError,
)
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_server.execution.cancellation import Cancellation
from xla_server.sessions.feeds.device_feeds import DeviceFeeds
from xla_server.sessions.feeds.infeed_stream import (
    InfeedStream,
    Progress,
    ReceivedItem,
    RejectedItem,
    Report,
)
from xla_server.sessions.feeds.queue_entries import FeedClient

SCALAR = Shape.parse("s32[]")
VECTOR = Shape.parse("f32[4]")


def _feeds(items: int = 4, size: int = 1000) -> DeviceFeeds:
    return device_feeds(items, size)


def _attach(
    feeds: DeviceFeeds, declared: Shape | None = None, cancellation: Cancellation | None = None
) -> InfeedStream:
    return feeds.infeed.attach(declared, cancellation or Cancellation())


def _arrivals(first: int, *values: object) -> list[ReceivedItem]:
    arrivals = []
    for sequence, value in enumerate(values, first):
        literal = Literal.from_numpy(value)
        leaves = tuple(literal.shape.leaves())
        arrivals.append(ReceivedItem(sequence, literal, len(leaves), literal.shape.byte_size))
    return arrivals


def _numbers(first: int, count: int) -> list[ReceivedItem]:
    return _arrivals(first, *(np.int32(n) for n in range(first, first + count)))


def _take(feeds: DeviceFeeds, *shapes: Shape) -> list[Any]:
    reported: list[Any] = []
    user = FeedClient("train", "infeed.3")
    feeds.infeed.queue.pop(shapes, Cancellation(), reported.append, user)
    return reported


def _taken(feeds: DeviceFeeds) -> int:
    return int(_take(feeds, SCALAR)[0][0].value)


def _reports(stream: InfeedStream, count: int) -> list[Report]:
    """The next reports, which must be due."""
    reports: list[Report] = []

    def read() -> None:
        for report in stream.reports():
            reports.append(report)
            if len(reports) == count:
                return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(100)
    assert not reader.is_alive()
    return reports


def _progress(stream: InfeedStream) -> Progress:
    [progress] = _reports(stream, 1)
    assert isinstance(progress, Progress)
    return progress


def test_credit_is_free_capacity_and_comes_back_as_programs_take():
    feeds = _feeds(items=8)
    stream = _attach(feeds)
    assert (stream.next_sequence, stream.credit.items, stream.credit.bytes) == (1, 8, 1000)
    stream.accept(_numbers(1, 8))
    assert _progress(stream).credit.items == 0
    assert _taken(feeds) == 1
    reports: list[Report] = []
    reader = threading.Thread(target=lambda: reports.append(next(stream.reports())), daemon=True)
    reader.start()
    assert waits(reader)  # One of 8 is not worth a message.
    assert _taken(feeds) == 2
    reader.join(100)
    [progress] = reports
    assert isinstance(progress, Progress)
    assert (progress.received, progress.consumed) == (8, 2)
    assert (progress.credit.items, progress.credit.bytes) == (2, 8)


@pytest.mark.parametrize(("items", "size"), [(2, 1000), (100, 8)])
def test_an_item_without_credit_ends_the_stream_and_those_before_it_count(items, size):
    feeds = _feeds(items, size)
    stream = _attach(feeds)
    with pytest.raises(ResourceExhaustedError, match="got item 3 with"):
        stream.accept(_numbers(1, 3))
    assert feeds.infeed.sequence == 2
    assert [_taken(feeds), _taken(feeds)] == [1, 2]


def test_the_last_item_may_use_more_than_is_left():
    feeds = _feeds(items=4, size=20)
    stream = _attach(feeds)
    stream.accept(_arrivals(1, np.zeros(100, np.float32)))
    with pytest.raises(ResourceExhaustedError, match="-380 bytes left"):
        stream.accept(_numbers(2, 1))
    [items] = _take(feeds, Shape.parse("f32[100]"))
    assert items[0].shape == Shape.parse("f32[100]")


def test_a_queue_that_lacks_items_gives_credit_beyond_its_size():
    feeds = _feeds(items=1)
    reported = _take(feeds, SCALAR, SCALAR, SCALAR)
    stream = _attach(feeds)
    assert stream.credit.items == 3
    stream.accept(_numbers(1, 3))
    assert [int(item.value) for item in reported[0]] == [1, 2, 3]


def test_credit_comes_at_once_where_a_program_waits_and_the_client_cannot_send():
    feeds = _feeds(items=100, size=8)
    stream = _attach(feeds)
    stream.accept(_numbers(1, 2))
    _progress(stream)
    reported = _take(feeds, SCALAR, SCALAR, SCALAR)
    assert _progress(stream).credit.bytes >= 1
    stream.accept(_numbers(3, 1))
    assert len(reported[0]) == 3


def test_numbers_go_on_on_the_next_stream_and_what_was_received_is_dropped():
    feeds = _feeds()
    stream = _attach(feeds)
    stream.accept(_numbers(1, 2))
    assert stream.end()
    again = _attach(feeds)
    assert again.next_sequence == 3
    assert again.credit.items == 2
    again.accept(_numbers(2, 2))
    assert [_taken(feeds) for _ in range(3)] == [1, 2, 3]
    assert not _take(feeds, SCALAR)


@pytest.mark.parametrize("number", [0, -1, 3])
def test_numbers_have_no_gaps(number):
    feeds = _feeds()
    stream = _attach(feeds)
    with pytest.raises(InvalidArgumentError, match=f"got {number} where 2 comes next"):
        stream.accept([*_numbers(1, 1), *_numbers(number, 1)])
    assert feeds.infeed.sequence == 1


def test_a_second_stream_replaces_the_first():
    feeds = _feeds()
    cancellation = Cancellation()
    first = _attach(feeds, cancellation=cancellation)
    reporting = threading.Thread(target=lambda: list(first.reports()), daemon=True)
    reporting.start()
    second = _attach(feeds)
    with pytest.raises(AbortedError, match="another Infeed stream"):
        cancellation.check()
    with pytest.raises(AbortedError):
        first.accept(_numbers(1, 1))
    reporting.join(100)
    assert not reporting.is_alive()
    first.end()
    second.accept(_numbers(1, 1))
    assert feeds.infeed.stream is not None


def _refused(stream: InfeedStream, arrivals: Sequence[ReceivedItem]) -> XlaError:
    stream.accept(arrivals)
    refused, progress = _reports(stream, 2)
    assert isinstance(refused, RejectedItem)
    assert isinstance(progress, Progress)
    assert refused.sequence == arrivals[-1].sequence == progress.received
    return refused.error


def test_an_item_of_another_shape_than_declared_is_refused_and_its_number_used_up():
    feeds = _feeds()
    stream = _attach(feeds, Shape.tuple_of([SCALAR, VECTOR]))
    error = _refused(stream, _numbers(1, 1))
    assert "got s32[] for (s32[], f32[4])" in error.message
    stream.accept(_arrivals(2, (np.int32(2), np.zeros(4, np.float32))))
    assert len(feeds.infeed.queue) == 2
    assert _taken(feeds) == 2


def test_an_item_that_the_waiting_instruction_does_not_take_is_refused_and_it_waits_on():
    feeds = _feeds()
    reported = _take(feeds, VECTOR)
    stream = _attach(feeds)
    error = _refused(stream, _numbers(1, 1))
    assert "%infeed.3 of module train waits for f32[4]" in error.message
    [waiting] = feeds.infeed.waiting()
    assert "item 1 of the stream was refused" in waiting.reason
    stream.accept(_arrivals(2, np.ones(4, np.float32)))
    assert reported[0][0].sequence == 2


def test_what_no_queue_takes_is_refused():
    feeds = _feeds(items=16)
    stream = _attach(feeds)
    nested = ((np.int32(1),),)
    for number, value in enumerate(((), np.zeros(0, np.int8), nested), 1):
        _refused(stream, _arrivals(number, value))
    broken = ReceivedItem(4, InvalidArgumentError("data must hold 4 bytes, got 3"), 1, 3)
    assert "got 3" in _refused(stream, [broken]).message
    with pytest.raises(UnimplementedError):
        _attach(feeds, Literal.from_numpy(nested).shape)


def test_refusals_are_reported_again_on_the_next_stream():
    feeds = _feeds()
    stream = _attach(feeds, VECTOR)
    _refused(stream, _numbers(1, 1))
    stream.end()
    refused, _ = _reports(_attach(feeds), 2)
    assert isinstance(refused, RejectedItem)
    assert refused.sequence == 1


def test_a_flush_is_answered_at_once():
    stream = _attach(_feeds(items=100))
    stream.accept(_numbers(1, 3))
    stream.flush()
    assert _progress(stream).received == 3


def test_closing_the_queue_ends_the_stream_and_the_next_one_opens_it():
    feeds = _feeds()
    cancellation = Cancellation()
    stream = _attach(feeds, cancellation=cancellation)
    stream.accept(_numbers(1, 2))
    assert feeds.infeed.close(discard=True) == 2
    with pytest.raises(AbortedError, match="was closed"):
        cancellation.check()
    assert feeds.infeed.queue.is_closed
    _attach(feeds).accept(_numbers(3, 1))
    assert _taken(feeds) == 3


def test_a_reset_releases_capacity_and_numbers_go_on():
    feeds = _feeds(items=4)
    stream = _attach(feeds)
    stream.accept(_numbers(1, 4))
    _progress(stream)
    feeds.reset()
    progress = _progress(stream)
    assert (progress.consumed, progress.credit.items) == (4, 4)
    stream.accept(_numbers(5, 1))
    assert _taken(feeds) == 5


def test_a_stream_that_may_not_send_is_reported():
    feeds = _feeds(items=2)
    stream = _attach(feeds, SCALAR)
    assert not feeds.infeed.waiting()
    stream.accept(_numbers(1, 2))
    [waiting] = feeds.infeed.waiting()
    assert "has used its credit; the queue holds 2 of 2 items" in waiting.reason
    assert waiting.shape == SCALAR
