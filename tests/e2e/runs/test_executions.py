"""Runs in one call, launched executions, and stopping them, over a real server."""

import asyncio
import concurrent.futures
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest

import xla_client as xc
from tests.e2e.process import Raw, refused, serving
from tests.fault.plain import until
from tests.in_threads import in_threads
from tests.unit.sessions.sample_runs import (
    ADD,
    DOUBLE,
    PAIR,
    argument_of,
    endless,
    keep,
    program,
    run_request,
    step,
    value,
)
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2

ONES = np.ones(4, np.float32)
QUOTA = 4


class Extension(Raw):
    """A plain client of both services, in the default session of its connection."""

    def __init__(self, address: str) -> None:
        super().__init__(address, own=True)

    def loaded(self, computation: xc.Computation) -> int:
        request = xla_pb2.CompileRequest()
        computation.write_to(request.computation)
        return self.compile(request.computation).handle

    def executions(self) -> int:
        use = self.DescribeSession(extension_pb2.DescribeSessionRequest()).use
        return use.concurrent_executions + use.launched_executions

    def calls(self) -> int:
        return int(self.DescribeServer(extension_pb2.DescribeServerRequest()).calls.used)

    def device_bytes(self) -> int:
        return self.DescribeSession(extension_pb2.DescribeSessionRequest()).use.device_bytes


server = serving("--session-executions", str(QUOTA), platforms=("interpreter", "cpu"))


@pytest.fixture
def raw(address: str) -> Iterator[Extension]:
    client = Extension(address)
    yield client
    client.close()


def _endless_calls(raw: Extension) -> dict[str, Any]:
    """Calls that never end, as futures begun with a timeout."""
    loop = raw.loaded(endless())
    held = raw.upload(ONES)
    run = run_request(step(loop, value(ONES), output=keep()))
    parallel = xla_pb2.ExecuteGraphParallelRequest()
    part = parallel.requests.add(arguments=[held])
    part.execution_options.device_handles.add(device_count=1)
    endless().write_to(part.computation)
    launched = raw.Launch(extension_pb2.LaunchRequest(run=run))
    # Memory for its result is reserved once it has begun.
    sent = ONES.nbytes + run.steps[0].arguments[0].value.ByteSize()
    until(lambda: raw.device_bytes() > sent)
    wait = xla_pb2.WaitForExecutionRequest(execution=launched.execution)
    download = xla_pb2.TransferToClientRequest(data=launched.outputs[0].outputs[0])
    loop_handle = xla_data_pb2.ExecutionHandle(handle=loop)
    execute = xla_pb2.ExecuteRequest(handle=loop_handle, arguments=[held])
    return {
        "Execute": (raw.Execute, execute),
        "ExecuteGraphParallel": (raw.ExecuteGraphParallel, parallel),
        "Run": (raw.Run, run),
        "RunBatch": (raw.RunBatch, extension_pb2.RunBatchRequest(runs=[run] * 6)),
        "WaitForExecution": (raw.WaitForExecution, wait),
        "TransferToClient": (raw.TransferToClient, download),
    }


@pytest.mark.parametrize("how", ["deadline", "cancel"])
def test_a_call_given_up_stops_what_it_runs(raw: Extension, how: str) -> None:
    calls = _endless_calls(raw)
    until(lambda: raw.executions() == 2)
    before, idle = raw.device_bytes(), raw.calls()
    for name, (call, request) in calls.items():
        if how == "deadline":
            refused_with = grpc.StatusCode.DEADLINE_EXCEEDED
            with pytest.raises(grpc.RpcError) as caught:
                call(request, timeout=0.2)
            assert caught.value.code() is refused_with, name  # type: ignore[attr-defined]
        else:
            future = call.future(request)
            until(lambda: raw.calls() > idle)
            future.cancel()
        # Only the launched one goes on.
        until(lambda: (raw.executions(), raw.device_bytes(), raw.calls()) == (2, before, idle))
    request = calls["WaitForExecution"][1]
    cancel = extension_pb2.CancelExecutionRequest(execution=request.execution)
    assert raw.CancelExecution(cancel).was_running
    refused(grpc.StatusCode.CANCELLED, raw.WaitForExecution, request)
    refused(grpc.StatusCode.NOT_FOUND, raw.WaitForExecution, request)
    refused(grpc.StatusCode.NOT_FOUND, raw.CancelExecution, cancel)
    assert raw.executions() == 0


def test_values_that_are_to_come_are_waited_for_without_threads(raw: Extension) -> None:
    """More calls wait than the server has threads for short ones, and short ones go on."""
    loop, double = raw.loaded(endless()), raw.loaded(program(DOUBLE))
    run = run_request(step(loop, value(ONES), output=keep()))
    launched = raw.Launch(extension_pb2.LaunchRequest(run=run))
    coming = launched.outputs[0].outputs[0]
    download = xla_pb2.TransferToClientRequest(data=coming)
    execute = xla_pb2.ExecuteRequest(
        handle=xla_data_pb2.ExecutionHandle(handle=double), arguments=[coming]
    )
    waiting = [raw.TransferToClient.future(download) for _ in range(40)]
    waiting += [
        raw.Execute.future(execute),
        raw.Run.future(run_request(step(double, argument_of(coming.handle), fetch=16))),
    ]
    shape = raw.GetShape(xla_pb2.GetShapeRequest(data=coming), timeout=10).shape
    assert list(shape.dimensions) == [4]
    raw.CancelExecution(extension_pb2.CancelExecutionRequest(execution=launched.execution))
    for call in waiting:
        with pytest.raises(grpc.RpcError) as caught:
            call.result(timeout=100)
        assert caught.value.code() is grpc.StatusCode.CANCELLED  # type: ignore[attr-defined]
        name = f"execution {launched.execution.handle} of endless"
        assert name in caught.value.details()  # type: ignore[attr-defined]


def test_a_batch_waits_for_the_values_it_names(raw: Extension) -> None:
    loop, double = raw.loaded(endless()), raw.loaded(program(DOUBLE))
    run = run_request(step(loop, value(ONES), output=keep()))
    launched = raw.Launch(extension_pb2.LaunchRequest(run=run))
    coming = launched.outputs[0].outputs[0].handle
    runs = [
        run_request(step(double, argument_of(coming), fetch=16)),
        run_request(step(double, value(ONES), fetch=16)),
    ]
    idle = raw.calls()
    batch = raw.RunBatch.future(extension_pb2.RunBatchRequest(runs=runs))
    given_up = raw.RunBatch.future(extension_pb2.RunBatchRequest(runs=runs))
    until(lambda: raw.calls() == idle + 2)
    assert not batch.done()
    given_up.cancel()
    raw.CancelExecution(extension_pb2.CancelExecutionRequest(execution=launched.execution))
    failed, well = batch.result(timeout=100).outcomes
    assert f"execution {launched.execution.handle} of endless".encode() in failed.status
    assert well.response.results[0].HasField("value")


def test_a_client_runs_in_one_round_trip(client: xc.Client) -> None:
    add, pair = client.compile(program(ADD)), client.compile(program(PAIR))
    calls = _counted(client)
    np.testing.assert_array_equal(add.run(ONES, 2 * ONES), 3 * ONES)
    assert calls == ["Run"]
    first, second = pair(ONES)
    assert calls == ["Run"] * 2
    np.testing.assert_array_equal(second.to_numpy(), 2 * ONES)
    # A donated buffer is gone, whatever the call; numbers must be those of arguments.
    calls.clear()
    kept = add(first, ONES, donate=(0,))
    assert calls == ["Run"]
    assert first.is_deleted
    assert not second.is_deleted
    np.testing.assert_array_equal(kept.to_numpy(), 2 * ONES)  # type: ignore[union-attr]
    with pytest.raises(xc.InvalidArgumentError, match="got 2 with 2 arguments"):
        add(second, ONES, donate=(2,))
    with pytest.raises(xc.InvalidArgumentError, match="deleted"):
        add(first, ONES)
    with pytest.raises(xc.InvalidArgumentError, match="argument 1"):
        add(second, ONES[:2], donate=(0,))
    assert not second.is_deleted
    large = np.ones(100_000, np.float32)
    wide = xc.Builder("wide")
    x = wide.parameter(0, xc.Shape.parse("f32[100000]"))
    np.testing.assert_array_equal(client.compile(wide.build(x + x)).run(large), 2 * large)


def _counted(client: xc.Client) -> list[str]:
    transport, calls = client._session.transport, list[str]()
    call = transport.call

    def counted(name: str, *arguments: Any) -> Any:
        calls.append(name)
        return call(name, *arguments)

    transport.call = counted  # type: ignore[method-assign]
    return calls


def test_a_batch_of_a_client(client: xc.Client) -> None:
    double = client.compile(program(DOUBLE))
    results = double.run_batch([(number * ONES,) for number in range(200)])
    np.testing.assert_array_equal(results, [2 * number * ONES for number in range(200)])
    assert double.run_batch([]) == []
    with pytest.raises(xc.InvalidArgumentError):
        double.run_batch([(ONES,), ()])


def test_submitted_runs_are_chained(client: xc.Client) -> None:
    double = client.compile(program(DOUBLE))
    run = double.submit(ONES)
    for _ in range(9):
        run = double.submit(run)
    np.testing.assert_array_equal(run.result().to_numpy(), 1024 * ONES)  # type: ignore[union-attr]
    assert run.done()
    assert run.result() is run.buffers
    futures = [double.submit(number * ONES).future() for number in range(8)]
    done = [each.result() for each in concurrent.futures.as_completed(futures, timeout=20)]
    assert len(done) == 8

    async def several() -> list[Any]:
        runs = [double.submit(number * ONES) for number in range(5)]
        return list(await asyncio.gather(*runs))

    for number, buffer in enumerate(asyncio.run(several())):
        np.testing.assert_array_equal(buffer.to_numpy(), 2 * number * ONES)


def test_a_failed_run_is_named_at_the_first_wait(client: xc.Client) -> None:
    loop, double = client.compile(endless()), client.compile(program(DOUBLE))
    gate = loop.submit(ONES)
    later = double.submit(double.submit(gate))
    with pytest.raises(xc.DeadlineExceededError):
        later.result(timeout=0.1)
    assert gate.future().cancel()
    for wait in (gate.result, later.result, lambda: double.run(later.buffers)):
        with pytest.raises(xc.CancelledError, match=r"execution \d+ of endless"):
            wait()
    assert not gate.cancel()

    async def given_up() -> None:
        await asyncio.wait_for(asyncio.shield(loop.submit(ONES)), 0.1)

    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(given_up())
    # The time given is the run's.
    with pytest.raises(xc.DeadlineExceededError):
        loop.submit(ONES, timeout=0.2).result()


def test_a_server_without_the_extension_is_used_as_it_is(client: xc.Client) -> None:
    client._session.transport.capabilities = frozenset()
    add, pair = client.compile(program(ADD)), client.compile(program(PAIR))
    calls = _counted(client)
    np.testing.assert_array_equal(add.run(ONES, 2 * ONES), 3 * ONES)
    assert "Run" not in calls
    first, second = pair(ONES)
    np.testing.assert_array_equal(add(first, second, donate=(1,)).to_numpy(), 3 * ONES)  # type: ignore[union-attr]
    assert second.is_deleted
    run = add.submit(first, add.submit(first, first))
    np.testing.assert_array_equal(run.result().to_numpy(), 3 * ONES)  # type: ignore[union-attr]
    assert run.profile.compute_time_ns > 0
    found = add.run_batch([(ONES, ONES), (ONES,)], return_exceptions=True)
    np.testing.assert_array_equal(found[0], 2 * ONES)
    assert isinstance(found[1], xc.InvalidArgumentError)


def test_threads_share_a_client(client: xc.Client) -> None:
    double = client.compile(program(DOUBLE))

    def work(number: int) -> None:
        for _ in range(20):
            np.testing.assert_array_equal(double.run(number * ONES), 2 * number * ONES)

    in_threads(work, range(6))
