"""Compiled programs: the rounds that a run takes, and what it leaves behind."""

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.unit.client.small_programs import (
    ONES,
    VECTOR,
    add,
    broadcast,
    double,
    endless,
    identity,
    pair,
)
from xla_client.runs import gathered_runs, run_request
from xla_client.transport.transport import Transport
from xla_contract.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    XlaError,
)
from xla_contract.types.shape import Shape


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The rpcs that clients made."""
    names: list[str] = []
    for method in ("call", "start"):
        original = getattr(Transport, method)

        def tell(self: Any, name: str, *arguments: Any, _original: Any = original) -> Any:
            names.append(name)
            return _original(self, name, *arguments)

        monkeypatch.setattr(Transport, method, tell)
    return names


def test_a_call_takes_one_round_trip_where_the_server_can(
    client: xc.Client, plain_client: xc.Client, rounds: list[str]
) -> None:
    for connected, of_arrays, of_pair in (
        (client, ["Run"], ["Run"]),
        (plain_client, ["TransferToServer", "Execute"], ["Execute", "DeconstructTuple"]),
    ):
        run, both = connected.compile(double()), connected.compile(pair())
        rounds.clear()
        result = run(ONES)
        assert rounds == of_arrays
        rounds.clear()
        again = run(result)
        assert rounds == ["Execute"]
        rounds.clear()
        _, second = both(result)
        assert rounds == of_pair
        np.testing.assert_array_equal(again.to_numpy(), 4 * ONES)
        np.testing.assert_array_equal(second.to_numpy(), 4 * ONES)


def test_fetching_goes_with_the_run_where_the_result_is_small(
    client: xc.Client, plain_client: xc.Client, rounds: list[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr(run_request, "FETCH_BYTES", 16)
    for connected, of_small, of_large in (
        (client, ["Run"], ["Run", "TransferToClient"]),
        (
            plain_client,
            ["TransferToServer", "Execute", "TransferToClient"],
            ["TransferToServer", "Execute", "TransferToClient"],
        ),
    ):
        small, large = connected.compile(broadcast(4)), connected.compile(broadcast(5))
        for _ in range(2):
            rounds.clear()
            np.testing.assert_array_equal(small.run(np.float32(3)), [3] * 4)
            assert rounds == of_small
            rounds.clear()
            np.testing.assert_array_equal(large.run(np.float32(3)), [3] * 5)
            assert rounds == of_large


@pytest.mark.parametrize("given", [ONES, [1, 1, 1, 1], "a buffer"])
def test_all_ways_of_running_give_the_same(either: xc.Client, given: Any) -> None:
    argument = either.to_device(ONES) if isinstance(given, str) else given
    run, both = either.compile(double()), either.compile(pair())
    np.testing.assert_array_equal(run.run(argument), 2 * ONES)
    np.testing.assert_array_equal(run(argument).to_numpy(), 2 * ONES)
    np.testing.assert_array_equal(run.submit(argument).result().to_numpy(), 2 * ONES)
    np.testing.assert_array_equal(run.run_batch([[argument]] * 2), [2 * ONES] * 2)
    np.testing.assert_array_equal(both.run(argument), (ONES, 2 * ONES))
    np.testing.assert_array_equal([each.to_numpy() for each in both(argument)], (ONES, 2 * ONES))


def test_large_arguments_are_uploaded_first(client: xc.Client, rounds: list[str]) -> None:
    count = run_request.INLINE_BYTES // 4 + 1
    run = client.compile(identity(f"f32[{count}]"))
    value = np.arange(count, dtype=np.float32)
    rounds.clear()
    np.testing.assert_array_equal(run.run(value), value)
    assert rounds == ["TransferToServer", "Run"]
    # It was the run's own.
    assert client.describe().values == ()


@pytest.mark.parametrize("how", ["call", "run", "submit"])
def test_donated_buffers_are_gone(either: xc.Client, how: str) -> None:
    run = either.compile(add())
    first, second = either.to_device(ONES), either.to_device(ONES)
    handle = first.handle
    if how == "call":
        result: Any = run(first, second, donate=[0]).to_numpy()
    elif how == "run":
        result = run.run(first, second, donate=[0])
    else:
        result = run.submit(first, second, donate=[0]).result().to_numpy()
    np.testing.assert_array_equal(result, 2 * ONES)
    assert (first.is_deleted, second.is_deleted) == (True, False)
    either.free_unused()
    with pytest.raises((InvalidArgumentError, NotFoundError)):
        either.adopt(handle)


@pytest.mark.parametrize("how", ["__call__", "run", "submit"])
def test_what_does_not_fit_is_refused_before_anything_is_given_up(
    either: xc.Client, how: str
) -> None:
    run = either.compile(add())
    buffer = either.to_device(ONES)
    method = getattr(run, how)
    with pytest.raises(InvalidArgumentError, match="one argument per parameter, got 1 for"):
        method(buffer)
    with pytest.raises(InvalidArgumentError, match="numbers of arguments, got 2 with 2 arguments"):
        method(buffer, ONES, donate=[2])
    with pytest.raises(InvalidArgumentError, match=r"^argument 1: .*5"):
        method(buffer, np.zeros(5, np.float32))
    assert not buffer.is_deleted
    run.delete()
    run.delete()
    with pytest.raises(
        InvalidArgumentError, match=r"^an executable must be alive .*got the deleted 'add'$"
    ):
        method(buffer, buffer)


def test_a_batch_keeps_its_order_and_its_errors(either: xc.Client, monkeypatch: Any) -> None:
    monkeypatch.setattr(gathered_runs, "_BATCH", 2)
    run = either.compile(double())
    gone = either.to_device(ONES)
    either.adopt(gone.handle).delete()
    batch: list[list[Any]] = [[number * ONES] for number in range(5)]
    np.testing.assert_array_equal(run.run_batch(batch), [2 * number * ONES for number in range(5)])
    assert run.run_batch([]) == []
    batch[3] = [gone]
    outcomes = run.run_batch(batch, return_exceptions=True)
    assert isinstance(outcomes[3], XlaError)
    np.testing.assert_array_equal(outcomes[4], 8 * ONES)
    with pytest.raises(InvalidArgumentError, match="unregistered"):
        run.run_batch(batch)


def test_what_does_not_fit_is_an_outcome_of_its_own(either: xc.Client) -> None:
    run = either.compile(double())
    batch: list[list[Any]] = [[ONES], [ONES[:2]], [], [2 * ONES], [object()]]
    first, short, none, second, alien = run.run_batch(batch, return_exceptions=True)
    np.testing.assert_array_equal([first, second], [2 * ONES, 4 * ONES])
    assert isinstance(short, InvalidArgumentError)
    assert isinstance(none, InvalidArgumentError)
    assert isinstance(alien, XlaError | TypeError | ValueError)
    for each in run.run_batch(batch[1:3], return_exceptions=True):
        assert isinstance(each, InvalidArgumentError)
    with pytest.raises(InvalidArgumentError, match=r"^argument 0: "):
        run.run_batch(batch)


def test_a_batch_of_large_results_is_run_one_by_one(
    client: xc.Client, rounds: list[str], monkeypatch: Any
) -> None:
    run = client.compile(broadcast(5))
    rounds.clear()
    run.run_batch([[np.float32(1)]] * 2)
    assert rounds == ["RunBatch"]
    monkeypatch.setattr(run_request, "FETCH_BYTES", 16)
    rounds.clear()
    np.testing.assert_array_equal(run.run_batch([[np.float32(1)]] * 2), np.ones((2, 5)))
    assert rounds == ["Run", "TransferToClient"] * 2


def test_a_deadline_ends_a_run(either: xc.Client) -> None:
    run = either.compile(endless())
    for method in (run, run.run):
        with pytest.raises(DeadlineExceededError):
            method(ONES, timeout=0.2)


def test_errors_of_runs_are_raised(either: xc.Client) -> None:
    # The result alone is more than a session may have.
    run = either.compile(broadcast(1 << 24))
    for method in (run, run.run):
        with pytest.raises(ResourceExhaustedError, match="67108864"):
            method(np.float32(1))


def test_it_says_what_it_is(client: xc.Client) -> None:
    run = client.compile(double(), argument_layouts=[VECTOR])
    assert run.name == "double"
    assert run.program_shape.parameters == (Shape.parse("f32[4]{0}"),)
    assert repr(run).startswith("Executable('double', (p0: f32[4]{0}) -> f32[4]{0}")
    assert run.is_of(client._session)
    with xc.connect(client.target) as other:
        assert not run.is_of(other._session)


def test_an_execution_is_an_argument_of_every_kind_of_run(
    client: xc.Client, plain_client: xc.Client
) -> None:
    for connected in (client, plain_client):
        run = connected.compile(double())
        last = run.submit(ONES)
        found = [
            run(last).to_numpy(),
            run.run(last),
            asyncio.run(run.arun(last)),
            *run.run_batch([(last,)]),
            run.submit(last).result().to_numpy(),
            connected.execute(double(), last).to_numpy(),
        ]
        if connected is client:
            sharded = connected.compile(double(), mesh=connected.mesh((2,), ("x",)))
            found += [each.to_numpy() for each in sharded.execute_sharded(last)]
            for argument in (xc.Shards([last, last]), connected.mesh((2,), ("x",)).shard(last)):
                found += [each.to_numpy() for each in sharded.execute_sharded(argument)]
        np.testing.assert_array_equal(found, [4 * ONES] * len(found))


def test_no_event_loop_stands_still_for_an_execution(plain_client: xc.Client) -> None:
    run, execution = plain_client.compile(double()), plain_client.compile(endless()).submit(ONES)
    watchdog = threading.Timer(10, execution.cancel)
    watchdog.start()

    async def begun_and_cancelled() -> None:
        task = asyncio.create_task(run.arun(execution))
        await asyncio.sleep(0)
        assert not task.done()
        execution.cancel()
        with pytest.raises(XlaError):
            await task

    asyncio.run(begun_and_cancelled())
    watchdog.cancel()
