"""Everything a client does, in coroutines."""

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.fault.plain import until
from tests.unit.client.runs.test_donation import giving_up_the_first
from tests.unit.client.small_programs import ONES, add, double, endless, pair
from xla_client.runs import run_request as runs
from xla_contract.errors import InvalidArgumentError, UnavailableError


@pytest.fixture
def started_calls(client: xc.Client, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the calls that coroutines make."""
    names: list[str] = []
    transport = client._session.transport
    start = transport.start

    def telling(name: str, *arguments: Any) -> Any:
        names.append(name)
        return start(name, *arguments)

    monkeypatch.setattr(transport, "start", telling)
    return names


def test_from_the_connection_to_the_value(target: str) -> None:
    async def work() -> tuple[Any, ...]:
        async with await xc.aconnect(target, timeout=60) as client:
            twice = await client.acompile(double())
            both = await client.acompile(pair(), returns=tuple)
            kept = await client.ato_device(ONES)
            large = await client.ato_device(np.ones(1 << 20, np.float32))
            progress: list[tuple[int, int]] = []
            fetched = await kept.ato_numpy(progress=lambda *now: progress.append(now))
            assert progress == [(16, 16)]
            assert (await large.ato_numpy()).sum() == 1 << 20
            return fetched, await twice.arun(kept), *await both.arun(ONES)

    found = asyncio.run(work())
    np.testing.assert_array_equal(found, [ONES, 2 * ONES, ONES, 2 * ONES])


def test_errors_are_those_of_the_calls(target: str, client: xc.Client) -> None:
    async def fails(awaitable: Any, kind: type[BaseException], match: str) -> None:
        with pytest.raises(kind, match=match):
            await awaitable

    run, gone = client.compile(add()), client.to_device(ONES)
    client.adopt(gone.handle).delete()
    asyncio.run(fails(run.arun(ONES), InvalidArgumentError, "one argument per parameter"))
    asyncio.run(fails(run.arun(ONES, gone), InvalidArgumentError, "unregistered"))
    asyncio.run(fails(gone.ato_numpy(), InvalidArgumentError, "unregistered"))
    asyncio.run(fails(xc.aconnect("unix:/nowhere"), UnavailableError, "No such file"))
    asyncio.run(fails(client.acompile(add(), returns=tuple), InvalidArgumentError, "must give a"))


def test_runs_that_are_gathered_share_messages_and_no_outcomes(
    client: xc.Client, started_calls: list[str]
) -> None:
    run, gone = client.compile(double()), client.to_device(ONES)
    client.adopt(gone.handle).delete()
    arguments: list[Any] = [number * ONES for number in range(100)]
    arguments[7] = gone

    async def work() -> list[Any]:
        return await asyncio.gather(*map(run.arun, arguments), return_exceptions=True)

    found = asyncio.run(work())
    assert started_calls == ["RunBatch", "RunBatch"]
    assert isinstance(found.pop(7), InvalidArgumentError)
    del arguments[7]
    np.testing.assert_array_equal(found, [2 * each for each in arguments])
    started_calls.clear()
    np.testing.assert_array_equal(asyncio.run(run.arun(ONES)), 2 * ONES)
    assert started_calls == ["Run"]
    asyncio.run(run.arun(ONES, timeout=60))
    assert started_calls == ["Run", "Run"]


def test_large_arguments_and_results_take_their_own_way(
    client: xc.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = client.compile(double())
    for name in ("INLINE_BYTES", "FETCH_BYTES"):
        monkeypatch.setattr(runs, name, 15)
        np.testing.assert_array_equal(asyncio.run(run.arun(ONES)), 2 * ONES)
        monkeypatch.setattr(runs, name, 1 << 20)


def test_what_a_module_gives_up_is_gone(client: xc.Client) -> None:
    run, first = client.compile(giving_up_the_first()), client.to_device(ONES)
    np.testing.assert_array_equal(asyncio.run(run.arun(first, ONES)), 2 * ONES)
    assert first.is_deleted


def test_who_is_cancelled_gives_the_runs_up(client: xc.Client) -> None:
    run = client.compile(endless())

    def running() -> int:
        return client.describe().use.concurrent_executions

    async def give_up(count: int) -> None:
        tasks = [asyncio.create_task(run.arun(ONES)) for _ in range(count)]
        await asyncio.to_thread(until, lambda: running() == count)
        for task in tasks:
            task.cancel()
        for task in tasks:
            with pytest.raises(asyncio.CancelledError):
                await task

    for count in (1, 3):
        asyncio.run(give_up(count))
        until(lambda: running() == 0)


def test_one_that_is_cancelled_leaves_the_others_of_its_message(client: xc.Client) -> None:
    run = client.compile(double())

    async def work() -> Any:
        first, second = (asyncio.create_task(run.arun(ONES)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    np.testing.assert_array_equal(asyncio.run(work()), 2 * ONES)


def test_an_abandoned_connection_is_closed(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    closed, close = threading.Event(), xc.Client.close
    monkeypatch.setattr(xc.Client, "close", lambda client: (close(client), closed.set()))

    async def work() -> None:
        connecting = asyncio.create_task(xc.aconnect(target))
        await asyncio.sleep(0)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        assert await asyncio.to_thread(closed.wait, 100)

    asyncio.run(work())
