"""Iterators of an outfeed that end with the run that writes it."""

import asyncio
from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.e2e.feed_programs import COUNT, relay, source
from tests.unit.client.small_programs import ONES, endless
from xla_contract.errors import CancelledError, UnimplementedError


@pytest.mark.parametrize("prefetch", [1, 128])
def test_values_end_with_the_run(client: xc.Client, prefetch: int) -> None:
    program, device = client.compile(source(20)), client.device()
    for _ in range(2):
        run = program.submit()
        found = [int(value) for value in device.outfeed(run=run, prefetch=prefetch)]
        assert found == list(range(20))
        assert run.result().to_numpy() == 20
    # A run that ended before, whose values wait in the queue.
    short = client.compile(source(3)).submit()
    short.result()
    assert [int(value) for value in device.outfeed(COUNT, run=short)] == [0, 1, 2]
    # One whose values were taken is over at once.
    assert list(device.outfeed(run=short)) == []


def test_coroutines_see_the_end_too(client: xc.Client) -> None:
    program, device = client.compile(relay(3)), client.device()

    async def work() -> list[int]:
        run = program.submit()
        async with device.infeed(COUNT) as feed:
            await feed.asend([5, 6, 7])
        return [int(value) async for value in device.outfeed(run=run)]

    assert asyncio.run(work()) == [5, 6, 7]


def test_a_run_that_fails_is_the_error_of_the_end(client: xc.Client) -> None:
    device = client.device()
    run = client.compile(relay(3)).submit()
    with device.infeed(COUNT) as feed:
        feed.put(5)
    values = device.outfeed(run=run)
    assert next(values) == 5
    device.infeed().close_queue()
    with pytest.raises(xc.AbortedError):
        next(values)
    values.close()
    stopped = client.compile(endless()).submit(ONES)
    waiting = device.outfeed(run=stopped)
    stopped.cancel()
    with pytest.raises(CancelledError):
        next(waiting)


def test_a_count_may_come_first(client: xc.Client) -> None:
    run, device = client.compile(source(5)).submit(), client.device()
    assert [int(value) for value in device.outfeed(count=2, run=run)] == [0, 1]
    assert [int(value) for value in device.outfeed(run=run)] == [2, 3, 4]


def test_values_of_several_arrays_are_counted(client: xc.Client) -> None:
    builder = xc.Builder("pairs")
    x = builder.parameter(0, xc.Shape.parse("f32[]"))
    for _ in range(3):
        xc.ops.outfeed(xc.ops.tuple([x, x]))
    run = client.compile(builder.build(x)).submit(np.float32(2))
    values: list[Any] = list(client.device().outfeed(run=run))
    np.testing.assert_array_equal(values, [[2, 2]] * 3)


def test_servers_without_streams_say_so(plain_client: xc.Client) -> None:
    run = plain_client.compile(source(1)).submit()
    with pytest.raises(UnimplementedError, match="must have streams of feeds to end with a run"):
        plain_client.device().outfeed(COUNT, run=run)
    plain_client.device().from_outfeed(COUNT)
    run.result()
