"""Endless programs and idle streams of some sessions leave threads and processors to the others."""

from collections.abc import Sequence
from typing import Any

import grpc
import numpy as np
import psutil

import xla_client as xc
from tests.e2e.process import ServerProcess, serving
from tests.fault.calls import CALLS, launch, upload
from tests.fault.plain import Plain, until
from tests.fault.programs import double, endless
from tests.unit.sessions.sample_runs import DOUBLE, ONES, argument_of, program
from xla_contract.stubs import xla_extension_pb2 as extension_pb2

FLAGS = {
    "execute-threads": 2,
    "max-executions": 16,
    "session-executions": 5,
    "max-streams": 12,
    "session-streams": 6,
    # All sessions are of one connection's host.
    "identity-share": 1,
    "connection-share": 1,
}
SESSIONS = 5
KINDS = ("Execute", "Converse", "RunBatch", "Run", "Launch")


server = serving(
    *(f"--{name}={value}" for name, value in FLAGS.items()), platforms=("interpreter", "cpu")
)


def _is_served(address: str) -> None:
    """A client that is new here has its calls of all kinds answered."""
    with xc.connect(address, timeout=20) as client:
        executable = client.compile(program(DOUBLE))
        np.testing.assert_array_equal(executable.run(ONES), 2 * ONES)
        launched = executable.submit(ONES).result(100)
        np.testing.assert_array_equal(launched.to_numpy(), 2 * ONES)  # type: ignore[union-attr]
    plain = Plain(address)
    executed, data = plain.compile(double()), upload(plain)
    for kind in CALLS:
        call = CALLS[kind](plain, executed, data)
        if kind == "Converse":
            call.half_close()
            assert not call.receive().status
        else:
            call.result(100)
    plain.end_session()


def _share(free: int) -> int:
    """The executions of a session that wants more than there are: no more than are left then."""
    share = 0
    while share < min(FLAGS["session-executions"], free - share):
        share += 1
    return share


def _refused(calls: Sequence[Any]) -> list[Any]:
    """Return the unary calls that were answered: all of them would run for ever."""
    return [call for call in calls if not hasattr(call, "call") and call.done()]


def _give_up(call: Any) -> None:
    getattr(call, "call", call).cancel()


def test_endless_programs_of_several_sessions_keep_no_other_from_running(
    server: ServerProcess,
) -> None:
    _is_served(server.address)
    process = psutil.Process(server.process.pid)
    observer = Plain(server.address)
    before = observer.counters()
    clients = [Plain(server.address) for _ in range(SESSIONS)]
    calls: list[Any] = []
    free = FLAGS["max-executions"]
    for client in clients:
        loop, data = client.compile(endless()), upload(client)
        for kind in KINDS:
            if kind == "Launch":
                launch(client, loop, argument_of(data.handle))
            else:
                calls.append(CALLS[kind](client, loop, data))
        # The first have all they may have; the later ones as many as are left, and one at least.
        share = _share(free)
        free -= share
        until(lambda client=client, share=share: client.executions()[0] == share)  # type: ignore[misc]
    assert not free
    use = [client.executions()[0] for client in clients]
    assert max(use) <= FLAGS["session-executions"]
    assert min(use) >= 1
    rule = "all sessions may have 16 executions"
    # The last answers may be under way.
    until(lambda: any(rule in call.details() for call in _refused(calls)))
    refused = _refused(calls)
    assert {call.code() for call in refused} <= {grpc.StatusCode.RESOURCE_EXHAUSTED}
    reported = [call.details() for call in refused]
    assert all("executions at the same time, " in each for each in reported), reported
    for _ in range(2):
        _is_served(server.address)
    crowded = process.num_threads()
    for call in calls:
        _give_up(call)
    for client in clients:
        client.end_session()
    until(lambda: observer.counters() == before)
    # Threads with a lent slot end.
    until(lambda: process.num_threads() <= crowded - 2 * FLAGS["execute-threads"])
    observer.end_session()


def test_one_that_runs_for_long_goes_on_running(server: ServerProcess) -> None:
    client = Plain(server.address)
    call = CALLS["Execute"](client, client.compile(endless()), upload(client))
    process = psutil.Process(server.process.pid)
    until(lambda: client.executions()[0] == 1)
    before = sum(process.cpu_times()[:2])
    until(lambda: sum(process.cpu_times()[:2]) > before + 0.3)
    _give_up(call)
    until(lambda: client.executions()[0] == 0)
    client.end_session()


def _idle(client: Plain) -> Any:
    """A stream that is open, and says nothing more; or the error it was refused with."""
    stream = client.stream("Converse")
    method = "xla.XlaExtensionService/DescribeSession"
    stream.send(extension_pb2.ConverseRequest(id=1, method=method))
    try:
        stream.receive()
    except grpc.RpcError as error:
        return error
    return stream


def test_idle_streams_of_one_client_leave_some_to_others(server: ServerProcess) -> None:
    clients = [Plain(server.address) for _ in range(3)]
    streams: list[Any] = []
    for client in clients:
        mine: list[Any] = []
        while not isinstance(stream := _idle(client), grpc.RpcError):
            mine.append(stream)
        assert mine
        streams += mine
        assert stream.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "may have 6 streams at the same time, all sessions 12" in str(stream.details())
    # With a limit of 12: half, half of the rest, and so on.
    assert len(streams) <= 6 + 3 + 2
    _is_served(server.address)
    for stream in streams:
        _give_up(stream)
    for client in clients:
        until(lambda client=client: not isinstance(_idle(client), grpc.RpcError))  # type: ignore[misc]
        client.end_session()


def test_streams_without_a_session_are_counted_by_their_connection(server: ServerProcess) -> None:
    client = Plain(server.address, "")
    # The server counts a stream without a session from its first message on.
    request = extension_pb2.DescribeSessionRequest()
    silent = [client.converse("DescribeSession", request) for _ in range(20)]

    def refused() -> int:
        return sum(stream.call.done() for stream in silent)

    until(lambda: refused() >= 20 - FLAGS["session-streams"])
    assert refused() < 20
    _is_served(server.address)
    for stream in silent:
        _give_up(stream)
    client.close()
