"""Draining, in this process: what is in progress ends or is cancelled, and nothing is left."""

import threading
from collections.abc import Callable, Iterator

import grpc
import numpy as np
import pytest

from tests.fault.plain import Plain, ends_unavailable, until
from tests.unit.rpc.calls.test_draining import looks_again
from tests.unit.sessions.engines import shared_resources
from tests.unit.sessions.sample_runs import (
    DOUBLE,
    argument_of,
    endless,
    keep,
    program,
    run_request,
    step,
    value,
)
from tests.unit.threads import no_threads
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.stubs import xla_pb2
from xla_server.rpc.limits.concurrency_limit import ConcurrencyLimits
from xla_server.rpc.server import RpcOptions, RpcServer
from xla_server.sessions.limits.shares.caller import LOCAL_FLOW
from xla_server.sessions.session_registry import SessionRegistry

ONES = np.ones(4, np.float32)


@pytest.fixture
def server() -> Iterator[RpcServer]:
    sessions = SessionRegistry(shared_resources())
    running = RpcServer(sessions, RpcOptions(listen=("127.0.0.1:0",)))
    running.start()
    yield running
    running.drain(0)


@pytest.fixture
def client(server: RpcServer) -> Iterator[Plain]:
    connected = Plain(server.address)
    yield connected
    connected.close()


def test_grpc_lets_in_all_calls_that_may_have_slots(
    server: RpcServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, streams = ConcurrencyLimits(10, 5, reserve=7), ConcurrencyLimits(3, 2, reserve=4)
    options = RpcOptions(listen=("127.0.0.1:0",), calls=calls, streams=streams)

    def most() -> int:
        running = RpcServer(server._sessions, options)
        limit: int = running._server._state.maximum_concurrent_rpcs  # type: ignore[attr-defined]
        running._close_shared_memory()
        return limit

    # Each may be answered and not have ended, too.
    assert most() > 2 * sum(each.limit + each.reserve for each in (calls, streams))
    monkeypatch.setattr("xla_server.rpc.server.known_server", lambda: None)
    assert most() == 10


def launch(client: Plain) -> extension_pb2.LaunchResponse:
    """An execution that does not end by itself, and one that waits for it."""
    loop, double = client.compile(endless()), client.compile(program(DOUBLE))
    run = run_request(step(loop.handle, value(ONES), output=keep()))
    first = client("Launch", extension_pb2.LaunchRequest(run=run))
    coming = argument_of(first.outputs[0].outputs[0].handle)
    run = run_request(step(double.handle, coming, output=keep()))
    client("Launch", extension_pb2.LaunchRequest(run=run))
    until(lambda: client.executions() == (1, 2))
    return first


def draining(server: RpcServer, grace_seconds: float) -> Callable[[], bool]:
    """Begins to drain; gives what waits for the end and says whether all threads are idle."""
    outcomes: list[bool] = []
    thread = threading.Thread(target=lambda: outcomes.append(server.drain(grace_seconds)))
    thread.start()

    def drained() -> bool:
        thread.join(100)
        return outcomes == [True]

    return drained


def test_launched_executions_have_until_the_deadline(server: RpcServer, client: Plain) -> None:
    launch(client)
    assert draining(server, 0.2)()
    assert not server._sessions.engine.launched
    assert (server.device_bytes, server.shared_bytes) == (0, 0)


def test_the_server_goes_once_the_last_launched_execution_has_ended(
    server: RpcServer, client: Plain
) -> None:
    launch(client)
    drained = draining(server, 300)
    until(lambda: not _is_served(client))
    # No call is in progress, and yet they go on.
    looks_again()
    assert len(server._sessions.engine.launched) == 2
    for session in server._sessions._all():
        session.service.close()
    assert drained()
    assert server.device_bytes == 0


def test_what_is_in_progress_can_be_cancelled_before_the_deadline(
    server: RpcServer, client: Plain
) -> None:
    launched = launch(client)
    wait = client.begin(
        "WaitForExecution", xla_pb2.WaitForExecutionRequest(execution=launched.execution)
    )
    client.describe()
    drained = draining(server, 300)
    until(lambda: not _is_served(client))
    server.cancel()
    assert "shutting down" in ends_unavailable(wait)
    assert drained()
    assert server.device_bytes == 0


def test_threads_have_the_time_to_end_that_calls_do_not_need(server: RpcServer) -> None:
    # On a busy machine an idle thread is woken late.
    server._sessions.engine.execution_threads.submit_for(LOCAL_FLOW, threading.Event().wait, 0.3)
    assert server.drain(0)


def test_calls_are_served_and_the_server_goes_where_the_system_refuses_threads(
    server: RpcServer, client: Plain
) -> None:
    with no_threads():
        client.describe()
        client.close()
        assert not server.drain(0)
    # grpc's own end, which needed a thread.
    assert server._server.stop(0).wait(100)


def _is_served(client: Plain) -> bool:
    try:
        client.begin("DescribeSession", extension_pb2.DescribeSessionRequest()).result(timeout=100)
    except grpc.RpcError:
        return False
    return True
