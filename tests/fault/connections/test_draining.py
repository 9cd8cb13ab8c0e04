"""A server that is stopped while executions are under way that were launched, or wait."""

import signal
from pathlib import Path

import numpy as np
import psutil
import pytest

import xla_client as xc
from tests.e2e.process import ServerProcess, start_server
from tests.fault.calls import CALLS, kept_run, launch, upload
from tests.fault.operator_server import calling, operator_s_server
from tests.fault.plain import Plain, ends_unavailable, has_drained, until
from tests.fault.programs import ARRAY, COUNT, double, endless, gated
from tests.unit.sessions.sample_runs import argument_of
from xla_client import ops
from xla_contract.errors import UnavailableError
from xla_contract.stubs import xla_extension_pb2, xla_pb2
from xla_server.app.serving import lifecycle
from xla_server.rpc import server as rpc_server

THREADS = 5
"""Threads of the server for calls that run programs, and as many for launched executions."""


def test_what_was_launched_may_end_while_the_server_drains(tmp_path: Path) -> None:
    """Its effects outside of the server show that it has run, before a caller waits for it."""
    with operator_s_server(tmp_path) as server:
        client = Plain(server.address)
        held, noted = client.compile(calling("held")), client.compile(calling("noted"))
        value = argument_of(upload(client).handle)
        for executable in (held, held, noted):
            launched = launch(client, executable, value)
            data = launched.outputs[0].outputs[0]
            value = argument_of(data.handle)
        server.process.terminate()
        until(lambda: "draining" in server.log.read_text())
        (tmp_path / "go").touch()
        fetched = client.begin("TransferToClient", xla_pb2.TransferToClientRequest(data=data))
        assert fetched.result().literal.f32s[0] == 4
        has_drained(server)
        assert (tmp_path / "note").read_text() == "4.0"
        assert "are cancelled" not in server.log.read_text()
        client.close()


@pytest.mark.parametrize("shared_memory", [True, False])
def test_a_client_fetches_the_results_of_what_it_had_launched(
    tmp_path: Path, shared_memory: bool
) -> None:
    """Whole, part by part and of pipelines, small and large; it frees the rest by closing."""
    ones = np.ones(COUNT, np.float32)
    with operator_s_server(tmp_path) as server:
        client = xc.connect(server.address, shared_memory=shared_memory)
        held, sliced = client.compile(calling("held")), client.compile(pair(), returns=tuple)
        whole = held.submit(ones)
        parts = sliced.submit(whole)
        steps = client.pipeline()
        steps.keep(steps.call(held, whole))
        both = steps.submit()
        unused = held.submit(both.buffers[0])
        server.process.terminate()
        until(lambda: "draining" in server.log.read_text())
        (tmp_path / "go").touch()
        assert parts.result(100)[1].to_numpy().tolist() == [2, 2]
        np.testing.assert_array_equal(parts.buffers[0].to_numpy(), 2 * ones)
        np.testing.assert_array_equal(whole.result(100).to_numpy(), 2 * ones)
        np.testing.assert_array_equal(both.result(100)[0].to_numpy(), 4 * ones)
        for call in (lambda: held.submit(whole), lambda: held(whole), lambda: held.run(ones)):
            with pytest.raises(UnavailableError, match="is shutting down"):
                call()
        assert server.process.poll() is None
        unused.result(100)
        client.close()
        has_drained(server)
        assert "were not fetched" not in server.log.read_text()


def test_results_that_are_not_fetched_in_time_are_logged_by_program(tmp_path: Path) -> None:
    with operator_s_server(tmp_path, "--grace-seconds", "0.5") as server:
        client = xc.connect(server.address)
        noted, forever = client.compile(calling("noted")), client.compile(endless())
        kept = noted.submit(np.ones(COUNT, np.float32))
        kept.result(100)
        going = forever.submit(noted.submit(np.ones(COUNT, np.float32))).future()
        server.process.terminate()
        with pytest.raises(UnavailableError, match=r"of endless.* the server is shutting down"):
            going.result(100)
        assert server.process.wait(60) == 0
        line = "2 results of launched executions were not fetched: 1 of noted, 1 of endless"
        assert line in server.log.read_text()
        client.close()


def test_arguments_of_later_executions_delay_no_drain(tmp_path: Path) -> None:
    with operator_s_server(tmp_path, "--grace-seconds", "600") as server:
        client = xc.connect(server.address)
        noted = client.compile(calling("noted"))
        first = noted.submit(np.ones(COUNT, np.float32))
        second = noted.submit(first)
        assert noted(second).to_numpy()[0] == 1
        server.process.terminate()
        has_drained(server)
        client.close()


def pair() -> xc.Computation:
    """The argument, and its first two elements."""
    builder = xc.Builder("pair")
    x = builder.parameter(0, ARRAY)
    return builder.build(ops.tuple([x, ops.slice(x, [0], [2])]))


def test_a_launched_execution_that_cannot_be_stopped_is_left(tmp_path: Path) -> None:
    with operator_s_server(tmp_path, "--grace-seconds", "0.1") as server:
        client = Plain(server.address)
        launch(client, client.compile(calling("stuck")), argument_of(upload(client).handle))
        until(lambda: client.executions() == (1, 1))
        server.process.terminate()
        assert server.process.wait(60) == 0
        assert "leaving with calls that do not stop" in server.log.read_text()
        client.close()


@pytest.mark.parametrize("how", ["deadline", "second signal"])
def test_what_does_not_end_is_cancelled(tmp_path: Path, how: str) -> None:
    grace = "0.3" if how == "deadline" else "300"
    flags = ("--platform", "interpreter", "--grace-seconds", grace, "--session-executions", "6")
    with start_server(tmp_path, *flags, "--execute-threads", str(THREADS)) as server:
        client, other = Plain(server.address), Plain(server.address)
        loop, gate = client.compile(endless()), client.compile(gated())
        data = upload(client)
        # One that runs, one that waits for an infeed, those that wait for them, and a waiter.
        stuck = launch(client, loop, argument_of(data.handle))
        hungry = launch(client, gate, argument_of(data.handle))
        coming = stuck.outputs[0].outputs[0]
        chained = client.compile(double())
        for _ in range(3):
            value = argument_of(coming.handle)
            coming = launch(client, chained, value).outputs[0].outputs[0]
        calls = [begin(client, chained, coming) for begin in CALLS.values()]
        calls.append(client.begin("TransferToClient", xla_pb2.TransferToClientRequest(data=coming)))
        for each in (stuck, hungry):
            wait = xla_pb2.WaitForExecutionRequest(execution=each.execution)
            calls.append(client.begin("WaitForExecution", wait))
        until(lambda: client.executions() == (2, 5))
        calls.append(CALLS["Converse"](client, gate, data))
        calls.append(CALLS["RunBatch"](client, gate, data))
        until(lambda: client.executions() == (6, 5))
        # All slots are taken: these wait in a queue.
        batch = xla_extension_pb2.RunBatchRequest(
            runs=[kept_run(gate, argument_of(data.handle))] * 9
        )
        calls.append(client.begin("RunBatch", batch))
        launch(client, loop, argument_of(data.handle))
        # A session's limit of executions is above the number of threads for calls.
        gate, data = other.compile(gated()), upload(other)
        calls += [CALLS["Execute"](other, gate, data) for _ in range(THREADS + 1)]
        until(lambda: other.executions()[0] >= THREADS)
        with xc.connect(server.address) as another:
            shared = another.to_device(np.ones(1 << 18, np.float32)).to_numpy()
            assert client.counters()[2] > 0
            server.process.send_signal(signal.SIGTERM)
            if how == "second signal":
                until(lambda: "draining" in server.log.read_text())
                server.process.send_signal(signal.SIGTERM)
            for call in calls:
                assert "shutting down" in ends_unavailable(call)
            has_drained(server)
        if how == "deadline":
            assert "and 6 launched executions are cancelled" in server.log.read_text()
        assert shared[-1] == 1
        client.close()
        other.close()


def slow_to_compile(count: int = 400) -> xc.Computation:
    """Products and loops of as many sizes as can be: seconds of compiling."""
    builder = xc.Builder("slow")
    x = builder.parameter(0, xc.Shape.parse("f32[64,64]"))
    for number in range(count):
        rows = ops.slice(x, [0, 0], [64 - number % 60, 64])
        y = ops.dot(ops.transpose(rows, [1, 0]), ops.tanh(rows) * float(number + 1))
        x = ops.sin(y) + ops.exp(x * float(number))
    return builder.build(x)


@pytest.mark.parametrize("how", ["Compile", "beside a launched execution", "Converse"])
def test_a_compile_that_is_cut_off_has_the_error_of_all(tmp_path: Path, how: str) -> None:
    flags = ("--grace-seconds", "0.1", "--no-prepare", "--compilation-cache-dir", "")
    with start_server(tmp_path, *flags) as server:
        client = Plain(server.address)
        if how == "beside a launched execution":
            launch(client, client.compile(gated()), argument_of(upload(client).handle))
        # The compiler is loaded when a program has been compiled.
        client.compile(slow_to_compile(1))
        request = client.compile_request(slow_to_compile())
        begin = client.converse if how == "Converse" else client.begin
        before = processor_seconds(server)
        call = begin("Compile", request)
        until(lambda: processor_seconds(server) - before > 0.5)
        server.process.terminate()
        assert "the server is shutting down and ended the call" in ends_unavailable(call)
        has_drained(server)
        client.close()


def processor_seconds(server: ServerProcess) -> float:
    """Return the time that the server has computed, which others on the machine do not change."""
    return float(psutil.Process(server.process.pid).cpu_times().user)


def test_all_that_follows_the_grace_period_takes_less_than_a_second() -> None:
    seconds = rpc_server._CLOSE_SECONDS + lifecycle._PREPARATION_SECONDS
    assert seconds < 1
