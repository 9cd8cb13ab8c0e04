"""Feeds in coroutines: everything that threads can do with them, without holding up the loop."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.e2e.feed_programs import COUNT, relay, sink, source
from tests.fault.plain import until
from xla_client.feeds import infeed, outfeed


async def _numbers(count: int) -> AsyncIterator[np.int32]:
    for number in range(count):
        await asyncio.sleep(0)
        yield np.int32(number)


async def _until_waiting(client: xc.Client, *, is_waiting: bool = True) -> None:
    def is_so() -> bool:
        return bool(client.device().feeds().infeed.waiters) == is_waiting

    await asyncio.to_thread(until, is_so)


def test_values_go_in_and_out(client):
    run = client.compile(relay(30)).submit()

    async def feed() -> int:
        async with client.device().infeed(COUNT) as feed:
            await feed.aput(0)
            sent = 1 + await feed.asend(_numbers(20)) + await feed.asend(range(9))
            await feed.adrain()
            return sent

    async def both() -> tuple[int, list[int]]:
        feeding = asyncio.create_task(feed())
        async with client.device().outfeed(count=30) as values:
            received = [int(await values.aget())]
            received += [int(value) async for value in values]
            with pytest.raises(StopAsyncIteration):
                await values.aget()
        await values.adrain()
        return await feeding, received

    assert asyncio.run(both()) == (30, [0, *range(20), *range(9)])
    run.result()


def test_drain_waits_and_can_be_given_up(client):
    async def drained() -> None:
        async with client.device().infeed(COUNT) as feed:
            await feed.asend(range(3))
            with pytest.raises(xc.DeadlineExceededError):
                await feed.adrain(timeout=0.2)
            await _until_waiting(client, is_waiting=False)
            draining = asyncio.create_task(feed.adrain())
            await _until_waiting(client)
            draining.cancel()
            with pytest.raises(asyncio.CancelledError):
                await draining
            draining = asyncio.create_task(feed.adrain())
            client.compile(relay(3)).submit()
            await draining
        values = client.device().outfeed(COUNT)
        with pytest.raises(xc.DeadlineExceededError):
            await values.adrain(timeout=0.2)
        assert [int(await values.aget()) for _ in range(3)] == [0, 1, 2]
        await values.aclose()
        await values.adrain()
        await values.aclose()

    asyncio.run(drained())
    assert client.device().feeds().outfeed.items == 0


def test_closing_a_queue_ends_waiters(client):
    run = client.compile(sink(3)).submit()

    async def close() -> None:
        feed = client.device().infeed(COUNT)
        await feed.aput(1)
        await _until_waiting(client)
        assert await feed.aclose_queue() == 0
        await feed.aclose()

    asyncio.run(close())
    with pytest.raises(xc.AbortedError, match="must be open"):
        run.result()
    with client.device().infeed(COUNT) as feed:
        feed.put(1)

    async def discard() -> int:
        return await client.device().infeed(COUNT).aclose_queue(discard=True)

    assert asyncio.run(discard()) == 1


def test_closing_the_outfeed_ends_the_iteration(client):
    client.compile(source(3)).run()

    async def rest() -> list[int]:
        async with client.device().outfeed(COUNT) as values:
            first = int(await values.aget())
            assert await values.aclose_queue() == 0
            return [first, *[int(value) async for value in values]]

    assert asyncio.run(rest()) == [0, 1, 2]


def test_a_value_is_waited_for_as_long_as_said(client):
    async def late() -> None:
        async with client.device().outfeed(COUNT) as values:
            with pytest.raises(xc.DeadlineExceededError):
                await values.aget(timeout=0.1)

    asyncio.run(late())


def test_leaving_does_not_hold_up_the_loop(client, monkeypatch):
    leaving = list[str]()
    for kind in (infeed._StreamedInfeed, outfeed._StreamedOutfeed):

        def close(link: Any, before: Any = kind.close) -> None:
            leaving.append(threading.current_thread().name)
            before(link)

        monkeypatch.setattr(kind, "close", close)

    async def leave() -> None:
        async with client.device().infeed(COUNT) as feed:
            await feed.aflush()
        async with client.device().outfeed(COUNT):
            pass
        async for _ in client.device().outfeed(COUNT, 0):
            pass
        await client.device().infeed(COUNT).aclose_queue()

    asyncio.run(leave())
    assert len(leaving) == 4
    assert threading.current_thread().name not in leaving


def test_calls_serve_where_the_server_has_no_streams(client):
    client._session.transport.capabilities = frozenset()
    run = client.compile(relay(10)).submit()

    async def feed() -> None:
        async with client.device().infeed(COUNT) as feed:
            await feed.asend(_numbers(10))
            await feed.adrain()

    async def both() -> list[int]:
        feeding = asyncio.create_task(feed())
        async with client.device().outfeed(COUNT, 10) as values:
            received = [int(value) async for value in values]
        await feeding
        return received

    assert asyncio.run(both()) == list(range(10))
    run.result()
