"""Feeds as streams, between real processes."""

import asyncio
import itertools
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import xla_client as xc
from tests.e2e.feed_programs import COUNT, relay, sink, source
from tests.e2e.feeds.conftest import QUEUE
from tests.fault.plain import until
from xla_client.feeds.state import FeedState
from xla_contract.stubs import xla_data_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2

VECTOR = xc.Shape.parse("f32[4]")


def _infeed(client: xc.Client) -> FeedState:
    return client.device().feeds().infeed


def test_many_items_pass_in_order_both_ways(client):
    run = client.compile(relay(1000)).submit()

    def feed() -> int:
        with client.device().infeed(COUNT) as infeed:
            return infeed.send(range(1000))

    with ThreadPoolExecutor(1) as executor:
        sent = executor.submit(feed)
        received = [int(value) for value in client.device().outfeed(COUNT, 1000)]
    assert sent.result() == 1000
    assert received == list(range(1000))
    assert run.result().to_numpy() == 1000


def test_a_tuple_comes_whole_and_a_layout_as_asked(client):
    pair = xc.Shape.parse("(f32[2,3], s32[])")
    client.compile(relay(2, pair)).submit()
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
    with client.device().infeed(pair) as feed:
        feed.send([(matrix, n) for n in range(2)])
    laid_out = xc.Shape.parse("(f32[2,3]{0,1}, s32[])")
    for shape in (None, laid_out):
        [(value, _)] = client.device().outfeed(shape, 1)
        np.testing.assert_array_equal(value, matrix)


def test_a_value_that_does_not_fit_is_refused_and_the_program_waits_on(client):
    run = client.compile(sink(2, VECTOR)).submit()
    until(lambda: bool(_infeed(client).waiters))
    with client.device().infeed() as feed:
        feed.put(np.int32(1))
        with pytest.raises(xc.InvalidArgumentError, match="of module sink waits for f32"):
            feed.flush()
        [waiter] = _infeed(client).waiters
        assert "item 1 of the stream was refused" in waiter.reason
        assert waiter.shape is not None
        assert str(waiter.shape) == "f32[4]"
        feed.send([np.zeros(4, np.float32)] * 2)
    run.result()
    with pytest.raises(xc.InvalidArgumentError), client.device().infeed(VECTOR) as feed:
        feed.put(np.zeros(5, np.float32))


def test_a_refusal_does_not_drop_what_comes_behind_it(client):
    feed = client.device().infeed(VECTOR)
    values = [np.zeros(4, np.float32)] * QUEUE
    feed.send(values)
    # A client that does not check would send it; there is no credit for it yet.
    feed._shape = None
    feed.put(np.int32(1))
    feed.send(values * 2)
    run = client.compile(sink(3 * QUEUE, VECTOR)).submit()
    with pytest.raises(xc.InvalidArgumentError):
        feed.close()
    run.result()


def test_what_the_server_refuses_of_another_writer_names_the_declared_shape(client):
    feed = client.device().infeed(VECTOR)
    # A client that does not check would send it.
    feed._shape = None
    feed.put(np.int32(1))
    with pytest.raises(xc.InvalidArgumentError, match=r"Infeed: .* got s32\[\] for f32\[4\]"):
        feed.close()


def test_a_deadlock_is_explained(client):
    """One program waits for more than it is fed, another fills a queue that has no reader."""
    wanting = client.compile(sink(3)).submit()
    filling = client.compile(source(QUEUE + 2)).submit()
    device = client.device()
    with device.infeed(COUNT) as feed:
        feed.send([1, 2])
    until(lambda: bool(device.feeds().infeed.waiters and device.feeds().outfeed.waiters))
    states = device.feeds()
    [taker], [putter] = states.infeed.waiters, states.outfeed.waiters
    assert taker.name == "sink"
    assert taker.instruction.startswith("infeed")
    assert taker.reason.endswith("of module sink waits for s32[]; the queue is empty")
    assert taker.seconds >= 0
    assert putter.name == "source"
    assert f"the queue holds {QUEUE} of {QUEUE} items" in putter.reason
    assert (states.outfeed.items, states.outfeed.max_items) == (QUEUE, QUEUE)
    assert [str(shape) for shape in states.outfeed.front] == ["s32[]"] * QUEUE
    device.to_infeed(np.int32(3))
    assert [int(value) for value in device.outfeed(COUNT, QUEUE + 2)] == list(range(QUEUE + 2))
    wanting.result()
    filling.result()


def test_a_launched_execution_that_waits_is_named(client):
    executable = client.compile(sink(1))
    step = extension_pb2.RunStep(
        executable=xla_data_pb2.ExecutionHandle(handle=executable.handle),
        output=extension_pb2.RunOutput(keep=True),
    )
    request = extension_pb2.LaunchRequest(run=extension_pb2.RunRequest(steps=[step]))
    launched = client._session.call("Launch", request).execution.handle
    until(lambda: bool(_infeed(client).waiters))
    [waiter] = _infeed(client).waiters
    assert waiter.execution == launched
    client.device().to_infeed(np.int32(1))
    until(lambda: not _infeed(client).waiters)


def test_a_full_queue_makes_the_sender_wait_without_harm(client):
    device = client.device()
    feed = device.infeed(COUNT, timeout=0.3)
    feed.flush(timeout=30)  # Until then there is no stream.
    numbers = itertools.count()
    with pytest.raises(xc.DeadlineExceededError):
        feed.send(numbers)
    sent = next(numbers) - 1
    until(lambda: bool(_infeed(client).waiters))
    state = _infeed(client)
    assert state.items == QUEUE
    assert state.is_streaming
    assert any("has used its credit" in waiter.reason for waiter in state.waiters)
    with pytest.raises(xc.DeadlineExceededError, match="must receive all"):
        feed.flush()
    run = client.compile(sink(sent)).submit()
    feed.flush(timeout=30)
    feed.close()
    run.result()
    assert _infeed(client).items == 0


def test_a_slow_reader_is_sent_no_more_than_its_credit(client):
    run = client.compile(source(50)).submit()
    values = client.device().outfeed(COUNT, prefetch=4)
    assert int(next(values)) == 0
    until(lambda: client.device().feeds().outfeed.items == QUEUE)
    until(lambda: len(client.device().feeds().outfeed.front) <= QUEUE - 4)
    state = client.device().feeds().outfeed
    # Sent values still use capacity: the rest of the queue has not been sent.
    assert len(state.front) == QUEUE - 4
    assert not run.done()
    assert [int(value) for value in itertools.islice(values, 49)] == list(range(1, 50))
    run.result()
    values.close()


def test_who_stops_early_leaves_the_rest_to_the_next(client):
    client.compile(source(6)).submit().result()
    received = []
    for value in client.device().outfeed(COUNT):
        received.append(int(value))
        if len(received) == 2:
            break
    assert received == [0, 1]
    assert int(client.device().from_outfeed(COUNT)) == 2
    assert [int(value) for value in client.device().outfeed(COUNT, 3)] == [3, 4, 5]
    with pytest.raises(xc.DeadlineExceededError):
        client.device().outfeed(COUNT, timeout=0.1).get()


def test_a_feed_that_was_closed_gives_nothing_that_comes_to_the_next(client):
    client.compile(source(6)).submit().result()
    values = client.device().outfeed(COUNT)
    assert int(next(values)) == 0
    until(lambda: len(client.device().feeds().outfeed.front) == 0)
    values.close()
    assert list(values) == []
    assert [int(value) for value in client.device().outfeed(COUNT, 5)] == [1, 2, 3, 4, 5]


def test_drain_waits_for_the_program(client):
    device = client.device()
    with device.infeed(COUNT) as feed:
        feed.send(range(3))
        with pytest.raises(xc.DeadlineExceededError):
            feed.drain(timeout=0.2)
        client.compile(relay(3)).submit()
        feed.drain()
    assert _infeed(client).items == 0
    values = device.outfeed(COUNT)
    with pytest.raises(xc.DeadlineExceededError):
        values.drain(timeout=0.2)
    assert [int(next(values)) for _ in range(3)] == [0, 1, 2]
    values.close()
    values.drain()


def test_closing_a_queue_ends_waiters_and_a_new_feed_opens_it(client):
    device = client.device()
    run = client.compile(sink(3)).submit()
    feed = device.infeed(COUNT)
    feed.put(1)
    until(lambda: bool(_infeed(client).waiters))
    assert feed.close_queue() == 0
    with pytest.raises(xc.AbortedError, match="must be open"):
        run.result()
    with pytest.raises(xc.AbortedError):
        device.to_infeed(np.int32(1))
    assert _infeed(client).is_closed
    with device.infeed(COUNT) as feed:
        feed.put(2)
    client.compile(sink(1)).run()


def test_a_closed_outfeed_ends_the_iteration(client):
    device = client.device()
    client.compile(source(3)).run()
    values = device.outfeed(COUNT)
    assert int(next(values)) == 0
    assert values.close_queue() == 0
    assert [int(value) for value in values] == [1, 2]
    with pytest.raises(xc.AbortedError, match="must be open"):
        client.compile(source(1)).run()


def test_another_feed_of_the_session_takes_over(client):
    first = client.device().infeed(COUNT)
    first.put(1)
    first.flush()
    with client.device().infeed(COUNT) as second:
        second.put(2)
    # The server has notified the first one, which may not have received it.
    until(lambda: first._sender.is_over)
    with pytest.raises(xc.AbortedError, match="another Infeed stream"):
        first.flush()
    client.compile(relay(2)).submit()
    assert [int(value) for value in client.device().outfeed(COUNT, 2)] == [1, 2]


def test_an_open_feed_sends_what_it_has_and_ends(client):
    feed = client.device().infeed(COUNT)
    feed.send(range(3 * QUEUE))
    threads = [weakref.ref(thread) for thread in feed._sender._threads]
    del feed
    client.compile(relay(3 * QUEUE)).submit()
    values = client.device().outfeed(COUNT, 3 * QUEUE)
    assert [int(value) for value in values] == list(range(3 * QUEUE))
    until(lambda: not _infeed(client).is_streaming)
    until(lambda: not any(thread() for thread in threads))


def test_calls_serve_where_the_server_has_no_streams(client):
    client._session.transport.capabilities = frozenset()
    run = client.compile(relay(20)).submit()
    with client.device().infeed(COUNT) as feed:
        feed.send(range(5))

        async def rest() -> None:
            await feed.asend(range(5, 20))

        values = client.device().outfeed(COUNT, 20)
        assert [int(next(values)) for _ in range(5)] == [0, 1, 2, 3, 4]
        asyncio.run(rest())
        assert [int(value) for value in values] == list(range(5, 20))
    run.result()
    with pytest.raises(xc.InvalidArgumentError, match="must have the shape"):
        client.device().outfeed()
