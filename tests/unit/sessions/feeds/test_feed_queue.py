"""The queue as callbacks; test_feeds.py shows the rules to threads that wait."""

from typing import Any

import numpy as np
import pytest

from xla_contract.errors import AbortedError, CancelledError, InvalidArgumentError
from xla_contract.types.shape import Shape
from xla_server.execution.cancellation import Cancellation
from xla_server.sessions.feeds.feed_queue import MAX_DESCRIBED_WAITERS, FeedQueue
from xla_server.sessions.feeds.queue_entries import FeedClient, Item

SCALAR = Shape.parse("s32[]")
VECTOR = Shape.parse("f32[4]")
TRAIN = FeedClient("train", "infeed.3")
CALL = FeedClient("TransferToInfeed")


def _queue(items: int = 2, size: int = 1000) -> FeedQueue:
    return FeedQueue("infeed", max_items=items, max_bytes=size)


def _number(value: int, sequence: int = 0) -> tuple[Item, ...]:
    return (Item(SCALAR, np.array(value, np.int32), sequence=sequence),)


def _vector() -> tuple[Item, ...]:
    return (Item(VECTOR, np.zeros(4, np.float32)),)


def _put(queue: FeedQueue, items: Any, cancellation: Cancellation | None = None) -> list[Any]:
    reported: list[Any] = []
    queue.put(items, cancellation or Cancellation(), reported.append, CALL)
    return reported


def _take(
    queue: FeedQueue, *shapes: Shape, cancellation: Cancellation | None = None, **how: bool
) -> list[Any]:
    reported: list[Any] = []
    queue.pop(shapes or None, cancellation or Cancellation(), reported.append, TRAIN, **how)
    return reported


def _values(reported: list[Any]) -> list[int]:
    [items] = reported
    return [int(item.value) for item in items]


def test_waiters_are_notified_once_and_in_order():
    queue = _queue()
    takers = [_take(queue, SCALAR) for _ in range(3)]
    puts = [_put(queue, _number(n)) for n in range(6)]
    assert [_values(reported) for reported in takers] == [[0], [1], [2]]
    assert puts == [[None]] * 5 + [[]]
    assert _values(_take(queue, SCALAR)) == [3]
    assert puts[5] == [None]


def test_a_cancelled_waiter_gets_the_reason_and_the_next_goes_on():
    queue = _queue(items=1)
    _put(queue, _number(0))
    cancellation = Cancellation()
    first, second = _put(queue, _number(1), cancellation), _put(queue, _number(2))
    cancellation.cancel()
    assert isinstance(first[0], CancelledError)
    assert not second
    assert _values(_take(queue, SCALAR)) == [0]
    assert second == [None]
    assert _values(_take(queue, SCALAR)) == [2]


def test_who_is_cancelled_before_gets_nothing():
    queue = _queue()
    gone = Cancellation()
    gone.cancel()
    assert isinstance(_put(queue, _number(1), gone)[0], CancelledError)
    assert len(queue) == 0
    _put(queue, _number(1))
    assert isinstance(_take(queue, SCALAR, cancellation=gone)[0], CancelledError)
    assert len(queue) == 1


def test_a_wrong_taker_fails_and_does_not_hold_up_the_next():
    queue = _queue()
    wrong, right = _take(queue, VECTOR), _take(queue, SCALAR)
    _put(queue, _number(1))
    assert isinstance(wrong[0], InvalidArgumentError)
    assert _values(right) == [1]


def test_any_value_may_be_asked_for_and_comes_whole():
    queue = _queue(items=4)
    reported = _take(queue)
    pair = tuple(
        Item(SCALAR, np.array(n, np.int32), in_tuple=True, is_last=n == 1) for n in range(2)
    )
    _put(queue, pair)
    _put(queue, _number(2))
    assert _values(reported) == [0, 1]
    assert _values(_take(queue)) == [2]


def test_a_loan_holds_up_others_and_may_be_given_back():
    queue = _queue()
    loans: list[Any] = []
    queue.lend([SCALAR], Cancellation(), loans.append, CALL)
    _put(queue, _number(1))
    behind = _take(queue, SCALAR)
    assert not behind
    loans[0].release()
    assert _values(behind) == [1]
    loans[0].keep()
    _put(queue, _number(2))
    assert len(queue) == 1


def test_a_loan_of_a_time_before_the_reset_takes_nothing():
    queue = _queue()
    loans: list[Any] = []
    _put(queue, _number(1))
    queue.lend([SCALAR], Cancellation(), loans.append, CALL)
    queue.clear()
    _put(queue, _number(2))
    loans[0].keep()
    assert _values(_take(queue, SCALAR)) == [2]


def test_held_items_use_capacity_until_they_are_released_or_put_back():
    queue = _queue(items=2)
    _put(queue, _number(1))
    _put(queue, _number(2))
    [held] = _take(queue, SCALAR, holds=True)
    waiting = _put(queue, _number(3))
    assert not waiting
    assert queue.size == (2, 8)
    queue.put_back(held)
    assert _values(_take(queue, SCALAR, holds=True)) == [1]
    queue.release(1, 4)
    assert waiting == [None]
    assert queue.size == (2, 8)


def test_who_holds_items_is_not_let_more_in_than_fits():
    queue = _queue(items=1)
    _put(queue, _number(1))
    _take(queue, SCALAR, holds=True)
    _take(queue, SCALAR, holds=True)
    waiting = _put(queue, _number(2))
    assert not waiting
    queue.release(1, 4)
    assert waiting == [None]


def test_offered_items_are_checked_against_what_is_waited_for():
    queue = _queue(items=1)
    consumer = _take(queue, SCALAR, VECTOR)
    refusals = queue.offer([_vector(), _number(1), _number(2), _vector(), _vector()])
    assert [refusal is None for refusal in refusals] == [False, True, False, True, True]
    assert r"got f32[4] where %infeed.3 of module train waits for (s32[], f32[4])" in str(
        refusals[0]
    )
    assert len(consumer[0]) == 2
    assert len(queue) == 1


@pytest.mark.parametrize("discard", [True, False])
def test_a_closed_queue_gives_what_it_has_and_turns_away_the_rest(discard):
    queue = _queue(items=1)
    _put(queue, _number(1))
    producer = _put(queue, _number(2))
    assert queue.close(discard=discard) == (1 if discard else 0)
    assert isinstance(producer[0], AbortedError)
    assert isinstance(_put(queue, _number(3))[0], AbortedError)
    with pytest.raises(AbortedError):
        queue.offer([_number(3)])
    if not discard:
        assert _values(_take(queue, SCALAR)) == [1]
    assert isinstance(_take(queue, SCALAR)[0], AbortedError)
    queue.open()
    waiting = _take(queue, SCALAR)
    assert _put(queue, _number(4)) == [None]
    assert _values(waiting) == [4]


def test_closing_ends_waiters_for_what_cannot_come():
    queue = _queue()
    consumer = _take(queue, SCALAR)
    queue.close()
    assert isinstance(consumer[0], AbortedError)
    queue.clear()
    assert not queue.is_closed


def test_drained_is_empty_and_nothing_held():
    queue = _queue()
    reported: list[Any] = []
    _put(queue, _number(1))
    queue.drain(Cancellation(), reported.append, CALL)
    _take(queue, SCALAR, holds=True)
    assert not reported
    queue.release(1, 4)
    assert reported == [None]
    queue.drain(Cancellation(), reported.append, CALL)
    assert reported == [None, None]
    _put(queue, _number(1))
    late = Cancellation()
    queue.drain(late, reported.append, CALL)
    late.cancel()
    assert isinstance(reported[2], CancelledError)


def test_the_numbers_of_what_was_taken_are_known():
    queue = _queue(items=4)
    queue.offer([_number(1, 7), _number(2, 8), _number(3, 9)])
    _take(queue, SCALAR)
    assert queue.consumed == 7
    queue.clear()
    assert queue.consumed == 9


def test_capacity_is_what_fits_and_one_more_for_a_consumer_without_items():
    queue = _queue(items=1, size=8)
    assert queue.free_capacity() == (1, 8)
    _put(queue, _vector())
    assert queue.free_capacity() == (0, -8)
    _take(queue, VECTOR, VECTOR, VECTOR)
    assert queue.lacking() == 2
    assert queue.free_capacity() == (2, 1)


def test_each_waiter_is_reported_with_the_reason():
    queue = _queue(items=1)
    _take(queue, VECTOR, SCALAR)
    _take(queue, SCALAR)
    [first, second] = queue.waiting()
    assert first.reason == (
        "infeed %infeed.3 of module train waits for (f32[4], s32[]); the queue is empty"
    )
    assert str(first.shape) == "(f32[4], s32[])"
    assert "1 before it in the queue" in second.reason
    queue.offer([_vector()])
    assert "1 arrays are there, the first of them f32[4]" in queue.waiting()[0].reason
    queue = _queue(items=1)
    _put(queue, _number(1))
    _put(queue, _vector())
    [waiting] = queue.waiting()
    assert waiting.reason == (
        "infeed TransferToInfeed waits for capacity for f32[4]; the queue holds 1 of 1 items and 4 "
        "of 1000 bytes; the first item of the queue is s32[]"
    )
    assert waiting.seconds >= 0
    assert [str(shape) for shape in queue.front()] == ["s32[]"]


def test_some_of_many_waiters_are_reported():
    queue = _queue(items=1)
    for _ in range(MAX_DESCRIBED_WAITERS + 5):
        _take(queue, VECTOR)
    reported = queue.waiting()
    assert len(reported) == MAX_DESCRIBED_WAITERS
    assert f"{MAX_DESCRIBED_WAITERS - 1} before it in the queue" in reported[-1].reason


def test_the_observer_is_called_for_free_capacity():
    queue = _queue()
    observed: list[tuple[int, int]] = []
    queue.observer = lambda: observed.append(queue.free_capacity())
    _put(queue, _number(1))
    _take(queue, SCALAR)
    assert observed == [(1, 996), (2, 1000)]
