"""Several executions in one call, recorded by the client, over a real server."""

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.e2e.process import serving
from tests.fault.plain import until
from tests.unit.sessions.sample_runs import ADD, DOUBLE, PAIR, endless, program
from xla_client import ops
from xla_client.pipelines import pipeline, pipeline_run
from xla_client.runs import run_request
from xla_contract.stubs import xla_extension_pb2 as extension_pb2

ONES = np.ones(4, np.float32)


server = serving("--devices", "1")


@pytest.fixture(params=["one run", "calls"])
def client(request: Any, address: str) -> Iterator[xc.Client]:
    """A client of a server that has all, and of one that has nothing but XLA's rpcs."""
    with xc.connect(address, timeout=60) as connected:
        if request.param == "calls":
            connected._session.transport.capabilities = frozenset()
        yield connected


@pytest.fixture
def able(address: str) -> Iterator[xc.Client]:
    with xc.connect(address, timeout=60) as connected:
        yield connected


def _calls(client: xc.Client) -> list[str]:
    """The calls that the client makes from now on, as they are made."""
    transport, made = client._session.transport, list[str]()
    call, start = transport.call, transport.start

    def noted_call(name: str, *arguments: Any) -> Any:
        made.append(name)
        return call(name, *arguments)

    def noted_start(name: str, *arguments: Any) -> Any:
        made.append(name)
        return start(name, *arguments)

    transport.call, transport.start = noted_call, noted_start
    return made


def test_later_steps_use_what_earlier_ones_give(client: xc.Client) -> None:
    double, add, pair = (client.compile(program(name)) for name in (DOUBLE, ADD, PAIR))
    p = client.pipeline()
    twice = p.call(double, ONES)
    same, more = p.call(pair, twice)
    total = p.call(add, same, more)
    assert len(p) == 3
    assert (str(total.shape), len(p.call(pair, total))) == ("f32[4]{0}", 2)
    p.fetch(total)
    p.keep(more)
    p.fetch(more)
    fetched, kept, fetched_more = p.run()
    np.testing.assert_array_equal(fetched, 6 * ONES)
    np.testing.assert_array_equal(kept.to_numpy(), 4 * ONES)
    np.testing.assert_array_equal(fetched_more, 4 * ONES)


def test_a_tuple_is_kept_as_its_elements_and_fetched_whole(client: xc.Client) -> None:
    pair = client.compile(program(PAIR))
    p = client.pipeline()
    both = p.call(pair, ONES)
    p.keep(both)
    p.fetch(both)
    p.keep(both[-1])
    (first, second), fetched, last = p.run()
    np.testing.assert_array_equal(first.to_numpy(), ONES)
    np.testing.assert_array_equal(second.to_numpy(), 2 * ONES)
    np.testing.assert_array_equal(fetched, [ONES, 2 * ONES])
    np.testing.assert_array_equal(last.to_numpy(), 2 * ONES)


def test_it_is_one_round_trip(able: xc.Client) -> None:
    double, add = able.compile(program(DOUBLE)), able.compile(program(ADD))
    made = _calls(able)
    p = able.pipeline()
    p.fetch(p.call(add, p.call(double, ONES), ONES))
    assert made == []
    (fetched,) = p.run()
    np.testing.assert_array_equal(fetched, 3 * ONES)
    assert made == ["Run"]


def test_only_the_parts_asked_for_come_back_or_stay(able: xc.Client) -> None:
    pair = able.compile(program(PAIR))
    p = able.pipeline()
    small, large = p.call(pair, ONES)
    p.fetch(small)
    p.keep(large)
    _, kept = p.run()
    assert able.describe().use.device_bytes == 16
    assert [each.handle for each in able.describe().values] == [kept.handle]


def test_coroutines_run_it_too(client: xc.Client) -> None:
    double = client.compile(program(DOUBLE))

    async def once(number: int) -> Any:
        p = client.pipeline()
        p.fetch(p.call(double, p.call(double, number * ONES)))
        return (await p.arun())[0]

    async def several() -> list[Any]:
        return await asyncio.gather(*(once(number) for number in range(5)))

    np.testing.assert_array_equal(asyncio.run(several()), [4 * n * ONES for n in range(5)])
    assert asyncio.run(client.pipeline().arun()) == client.pipeline().run() == ()


def test_a_coroutine_that_is_cancelled_stops_the_run(able: xc.Client) -> None:
    loop = able.compile(endless())

    async def impatient() -> None:
        p = able.pipeline()
        p.call(loop, ONES)
        running = asyncio.create_task(p.arun())
        await asyncio.to_thread(until, lambda: able.describe().use.concurrent_executions)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(impatient())
    until(lambda: not able.describe().use.concurrent_executions)


def test_what_does_not_fit_is_reported_at_the_call_with_its_step(
    client: xc.Client, address: str
) -> None:
    double, pair = client.compile(program(DOUBLE)), client.compile(program(PAIR))
    p = client.pipeline()
    both = p.call(pair, ONES)
    with pytest.raises(
        xc.InvalidArgumentError,
        match=r"step 1 \(double\): argument 0: the result of a step must have .* got "
        r"\(f32\[4\]\{0\}, f32\[4\]\{0\}\) for f32\[4\]\{0\}",
    ):
        p.call(double, both)
    with pytest.raises(xc.InvalidArgumentError, match=r"step 1 \(double\): argument 0: .*of \[5\]"):
        p.call(double, np.ones(5, np.float32))
    with pytest.raises(xc.InvalidArgumentError, match=r"step 1 \(double\): .* got 2 for"):
        p.call(double, ONES, ONES)
    with pytest.raises(xc.InvalidArgumentError, match=r"step 1 \(double\): donate .* got 1 with 1"):
        p.call(double, ONES, donate=[1])
    with pytest.raises(IndexError):
        both[2]
    with pytest.raises(TypeError, match=r"only a tuple has elements, got f32\[4\]"):
        both[0][0]
    foreign = client.pipeline().call(double, ONES)
    for use in (lambda: p.call(double, foreign), lambda: p.keep(foreign), lambda: p.fetch(foreign)):
        with pytest.raises(xc.InvalidArgumentError, match=r"in its own pipeline only.*elsewhere"):
            use()
    with pytest.raises(xc.InvalidArgumentError, match=r"own pipeline only|value on this side"):
        double(both[0])
    with xc.connect(address) as other, pytest.raises(xc.InvalidArgumentError, match="own client"):
        p.call(other.compile(program(DOUBLE)), ONES)
    p.fetch(p.call(double, both[1]))
    np.testing.assert_array_equal(p.run()[0], 4 * ONES)


def test_it_runs_once(client: xc.Client) -> None:
    double = client.compile(program(DOUBLE))
    p = client.pipeline()
    result = p.call(double, ONES)
    assert p.run() == ()
    for more in (p.run, lambda: p.call(double, ONES), lambda: p.keep(result)):
        with pytest.raises(
            xc.FailedPreconditionError, match="only a pipeline that has not run can"
        ):
            more()


def test_a_run_that_fails_names_the_step_and_keeps_nothing(able: xc.Client) -> None:
    feeding = _feeding(able)
    double = able.compile(program(DOUBLE))
    p = able.pipeline()
    first = p.call(double, ONES)
    p.keep(first)
    p.call(feeding, first)
    with pytest.raises(xc.DeadlineExceededError):
        p.run(timeout=0.3)
    with able.device().infeed() as feed:
        feed.close_queue()
    p = able.pipeline()
    p.keep(p.call(double, ONES))
    p.call(feeding, ONES)
    with pytest.raises(xc.AbortedError, match="step 1"):
        p.run()
    assert able.describe().values == ()
    with able.device().infeed():
        pass


def test_donated_arguments_are_gone(client: xc.Client) -> None:
    double, add = client.compile(program(DOUBLE)), client.compile(program(ADD))
    given = client.to_device(ONES)
    p = client.pipeline()
    twice = p.call(double, given, donate=[0])
    p.fetch(p.call(add, twice, ONES, donate=[0, 1]))
    assert not given.is_deleted
    np.testing.assert_array_equal(p.run()[0], 3 * ONES)
    assert given.is_deleted


def _feeding(client: xc.Client) -> xc.Executable:
    """x + the next item of infeed, which it waits for."""
    builder = xc.Builder("feeding")
    x = builder.parameter(0, xc.Shape.parse("f32[4]"))
    return client.compile(builder.build(x + builder.infeed(xc.Shape.parse("f32[4]"))))


def test_it_may_be_submitted(client: xc.Client) -> None:
    double, pair = client.compile(program(DOUBLE)), client.compile(program(PAIR))
    p = client.pipeline()
    both = p.call(pair, p.call(double, ONES))
    p.keep(both[1])
    p.keep(both)
    run = p.submit(timeout=60)
    more, (same, again) = run.result()
    for buffer, factor in ((more, 4), (same, 2), (again, 4)):
        np.testing.assert_array_equal(buffer.to_numpy(), factor * ONES)
    assert run.done()
    assert run.buffers == run.future().result() == (more, (same, again))

    async def awaited() -> Any:
        p = client.pipeline()
        p.keep(p.call(double, p.call(double, ONES)))
        return (await p.submit())[0]

    np.testing.assert_array_equal(asyncio.run(awaited()).to_numpy(), 4 * ONES)
    for more_of_it in (p.submit, p.run, lambda: p.call(double, ONES)):
        with pytest.raises(
            xc.FailedPreconditionError, match="only a pipeline that has not run can"
        ):
            more_of_it()


def test_what_was_submitted_goes_on_by_itself(able: xc.Client) -> None:
    feeding, double = _feeding(able), able.compile(program(DOUBLE))
    given = able.to_device(ONES)
    made = _calls(able)
    p = able.pipeline()
    p.keep(p.call(double, p.call(feeding, given, donate=[0])))
    run = p.submit()
    # The client's timeout is the run's, so it begins to wait.
    assert made == ["Launch", "WaitForExecution"]
    assert given.is_deleted
    # A future result may be an argument.
    following = able.pipeline()
    following.keep(following.call(double, run.buffers[0]))
    last = following.submit()
    assert made == ["Launch", "WaitForExecution"] * 2
    assert not run.done()
    with able.device().infeed() as feed:
        feed.put(ONES)
    np.testing.assert_array_equal(last.result()[0].to_numpy(), 8 * ONES)
    np.testing.assert_array_equal(run.result()[0].to_numpy(), 4 * ONES)


def test_an_execution_may_be_an_argument_of_a_step(client: xc.Client) -> None:
    double = client.compile(program(DOUBLE))
    p = client.pipeline()
    p.fetch(p.call(double, double.submit(ONES)))
    np.testing.assert_array_equal(p.run()[0], 4 * ONES)


@pytest.mark.parametrize("missing", [[], ["LAUNCH"], ["LAUNCH", "RUN"]])
def test_a_submitted_run_is_stopped_and_fails_by_its_step(
    able: xc.Client, missing: list[str]
) -> None:
    transport = able._session.transport
    transport.capabilities -= {getattr(extension_pb2, f"CAPABILITY_{name}") for name in missing}
    double, loop, feeding = able.compile(program(DOUBLE)), able.compile(endless()), _feeding(able)
    p = able.pipeline()
    p.keep(p.call(loop, p.call(double, ONES)))
    run = p.submit()
    until(lambda: able.describe().use.concurrent_executions or run.done())
    assert run.cancel()
    with pytest.raises(xc.CancelledError):
        run.result(100)
    assert not run.cancel()
    until(lambda: not able.describe().use.concurrent_executions)
    able.device().infeed().close_queue()
    p = able.pipeline()
    p.keep(p.call(feeding, p.call(double, ONES)))
    run = p.submit()
    with pytest.raises(xc.AbortedError, match="of module feeding waited" if missing else "step 1"):
        run.result(100)
    with pytest.raises(xc.AbortedError):
        run.buffers[0].to_numpy()
    with able.device().infeed():
        pass


def test_what_cannot_be_submitted_is_reported(client: xc.Client) -> None:
    with pytest.raises(xc.InvalidArgumentError, match="must have a step to be submitted"):
        client.pipeline().submit()
    p = client.pipeline()
    p.fetch(p.call(client.compile(program(DOUBLE)), ONES))
    with pytest.raises(xc.InvalidArgumentError, match=r"must keep all .* fetches 1") as reported:
        p.submit()
    assert "to_numpy" in reported.value.hint
    np.testing.assert_array_equal(p.run()[0], 2 * ONES)


@pytest.mark.parametrize("way", ["UploadShared", "Upload"])
def test_large_arguments_take_the_way_of_large_values(
    address: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xla_client.transfers.chunked.THRESHOLD", 1 << 20)
    size = 1 << 19
    builder = xc.Builder("large")
    x = builder.parameter(0, xc.Shape.parse(f"f32[{size}]"))
    computation = builder.build(x + x)
    with xc.connect(address, shared_memory=None if way == "UploadShared" else False) as client:
        transport, streams = client._session.transport, list[str]()
        stream = transport.stream

        def noted(name: str, *arguments: Any, **named: Any) -> Any:
            streams.append(name)
            return stream(name, *arguments, **named)

        monkeypatch.setattr(transport, "stream", noted)
        large, array = client.compile(computation), np.arange(size, dtype=np.float32)
        made = _calls(client)
        p = client.pipeline()
        p.keep(p.call(large, p.call(large, array)))
        assert way in made + streams
        assert "TransferToServer" not in made
        (kept,) = p.submit().result()
        np.testing.assert_array_equal(kept.to_numpy(), 4 * array)


def test_what_is_large_is_uploaded_first_and_downloaded_after(client: xc.Client) -> None:
    size = run_request.FETCH_BYTES // 4 + 1
    builder = xc.Builder("large")
    x = builder.parameter(0, xc.Shape.parse(f"f32[{size}]"))
    large = client.compile(builder.build(x + x))
    array = np.arange(size, dtype=np.float32)
    p = client.pipeline()
    p.fetch(p.call(large, array))
    array[:] = 0  # It was taken as it was.
    np.testing.assert_array_equal(p.run()[0], 2 * np.arange(size, dtype=np.float32))
    p = client.pipeline()
    p.fetch(p.call(large, array + 1))
    np.testing.assert_array_equal(asyncio.run(p.arun())[0], array + 2)


def test_many_small_arguments_do_not_make_a_large_message(
    able: xc.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline_run, "INLINE_BYTES", 40)
    double = able.compile(program(DOUBLE))
    made = _calls(able)
    p = able.pipeline()
    for number in range(4):
        p.fetch(p.call(double, number * ONES))
    np.testing.assert_array_equal(p.run(), [2 * n * ONES for n in range(4)])
    assert made == ["TransferToServer", "TransferToServer", "Run"]


def test_it_has_at_most_so_many_steps(client: xc.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    double = client.compile(program(DOUBLE))
    monkeypatch.setattr(pipeline, "MAX_STEPS", 2)
    p = client.pipeline()
    for _ in range(2):
        p.call(double, ONES)
    with pytest.raises(xc.InvalidArgumentError, match="at most 2 steps"):
        p.call(double, ONES)


def test_elements_of_elements(able: xc.Client) -> None:
    builder = xc.Builder("nested")
    x = builder.parameter(0, xc.Shape.parse("f32[4]"))
    nested = able.compile(builder.build(ops.tuple([ops.tuple([x, x + x]), x])))
    p = able.pipeline()
    result = p.call(nested, ONES)
    p.keep(result[0])
    p.fetch(result[0][1])
    p.fetch(p.call(able.compile(program(DOUBLE)), result[0][1]))
    p.keep(result)
    pair, part, double, whole = p.run()
    assert [each.to_numpy()[0] for each in pair] == [1, 2]
    assert (part[0], double[0]) == (2, 4)
    assert str(whole.shape).startswith("((f32[4]")
    assert "step 0[0][1]" in repr(result[0][1])


def test_what_a_server_does_not_know_of_parts_is_not_asked_of_it(able: xc.Client) -> None:
    transport = able._session.transport
    transport.capabilities -= {extension_pb2.CAPABILITY_RUN_PARTS}
    pair = able.compile(program(PAIR))
    made = _calls(able)
    p = able.pipeline()
    p.fetch(p.call(pair, ONES)[1])
    np.testing.assert_array_equal(p.run()[0], 2 * ONES)
    assert "Run" not in made
