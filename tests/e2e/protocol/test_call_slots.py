"""One client's calls that wait, or do not arrive, leave slots to those of the others."""

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from google.rpc import status_pb2

from tests.e2e.process import ServerProcess, refused, serving
from tests.fault.calls import is_served, launch, upload
from tests.fault.plain import RPCS_BY_NAME, Plain, until
from tests.fault.programs import gated
from tests.fault.raw_peer import HEADERS, RawPeer
from tests.unit.sessions.sample_runs import argument_of
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.stubs import xla_pb2

LIMIT = 24
EACH = 8
TOO_MANY = 5
TOLD = (
    f"a session may have {EACH} calls at the same time, all sessions {LIMIT}, and one of them no "
    f"more than are left, got one more with {EACH} of the session's and "
)


server = serving(
    *("--max-concurrent-calls", str(LIMIT), "--session-calls", str(EACH)),
    *("--execute-threads", "2", "--short-threads", "1"),
    # All clients here are one host's.
    *("--identity-share", "1", "--connection-share", "1"),
)


class Greedy:
    """A session with an execution that waits, for which any number of calls may wait."""

    def __init__(self, address: str) -> None:
        self.client = Plain(address)
        self.beside = self.client.beside(address)
        self._watcher = Plain(address)
        launched = launch(
            self.client, self.client.compile(gated()), argument_of(upload(self.client).handle)
        )
        self.execution = launched.execution
        self.request = xla_pb2.WaitForExecutionRequest(execution=launched.execution)

    def wait(self, count: int, timeout: float = 60) -> list[Any]:
        """So many calls of both connections that wait for the execution."""
        clients = (self.client, self.beside)
        return [
            clients[number % 2]
            ._calls["WaitForExecution"]
            .future(self.request, timeout=timeout, metadata=self.client._metadata)
            for number in range(count)
        ]

    def conversation(self, count: int) -> Any:
        """A stream with so many calls that wait."""
        stream = self.client.stream("Converse")
        path, data = RPCS_BY_NAME["WaitForExecution"].path[1:], self.request.SerializeToString()
        for number in range(1, count + 1):
            stream.send(extension_pb2.ConverseRequest(id=number, method=path, request=data))
        return stream

    def is_refused(self) -> bool:
        try:
            self.client.describe()
        except grpc.RpcError as error:
            return bool(error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED)
        return False

    def has_slots(self, count: int) -> None:
        """Wait until so many calls, all of them this session's, have slots."""
        until(lambda: self._watcher.calls() == count + 1)

    def end(self) -> None:
        until(lambda: not self.is_refused())
        self.beside.close()
        self.client.end_session()
        self._watcher.end_session()


@pytest.fixture
def greedy(server: ServerProcess) -> Iterator[Greedy]:
    greedy = Greedy(server.address)
    yield greedy
    greedy.end()


def _is_served(server: ServerProcess) -> None:
    """A client that is new here has calls of all kinds answered."""
    client = Plain(server.address)
    is_served(client)
    client.end_session()


def _ended(calls: list[Any]) -> int:
    return sum(call.done() for call in calls)


def _take_all(greedy: Greedy, timeout: float = 60) -> list[Any]:
    """Have as many calls wait as there may be; gives those, when others were refused."""
    greedy.has_slots(0)  # Cancelled calls keep their slots until the server has noticed.
    calls = greedy.wait(EACH, timeout)
    greedy.has_slots(EACH)
    for call in greedy.wait(TOO_MANY, timeout):
        assert TOLD in refused(grpc.StatusCode.RESOURCE_EXHAUSTED, call.result)
    assert _ended(calls) == 0
    assert greedy.is_refused()
    return calls


def _cancel(_: Greedy, calls: list[Any]) -> None:
    for call in calls:
        call.cancel()


def _hang_up(greedy: Greedy, calls: list[Any]) -> None:
    address = greedy.client.address
    greedy.client.close()
    greedy.beside.close()
    greedy.client, greedy.beside = (Plain(address, greedy.client.token) for _ in range(2))


def _end_execution(greedy: Greedy, calls: list[Any]) -> None:
    # The session has no slot for the call that would end the execution.
    calls[0].cancel()
    until(lambda: not greedy.is_refused())
    greedy.client(
        "CancelExecution", extension_pb2.CancelExecutionRequest(execution=greedy.execution)
    )
    for call in calls[1:]:
        with pytest.raises(grpc.RpcError):
            call.result(100)


@pytest.mark.parametrize("let_go", [_cancel, _hang_up])
def test_calls_that_wait_are_of_their_session(
    server: ServerProcess, greedy: Greedy, let_go: Callable[[Greedy, list[Any]], None]
) -> None:
    for _ in range(3):
        calls = _take_all(greedy)
        _is_served(server)
        let_go(greedy, calls)
        until(lambda: not greedy.is_refused())


def test_calls_whose_deadline_passes_leave_their_slots(
    server: ServerProcess, greedy: Greedy
) -> None:
    calls = _take_all(greedy, timeout=5)
    _is_served(server)
    for call in calls:
        assert call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    until(lambda: not greedy.is_refused())
    _end_execution(greedy, _take_all(greedy))


def test_several_sessions_leave_some_to_others(server: ServerProcess) -> None:
    sessions = [Greedy(server.address) for _ in range(4)]
    waiting: list[list[Any]] = []
    for greedy in sessions:
        calls = greedy.wait(LIMIT)
        # With a limit of 24: 8 each, then half of the rest.
        left = LIMIT - sum(map(len, waiting))
        count = min(EACH, left // 2)
        until(lambda calls=calls, count=count: _ended(calls) >= LIMIT - count)  # type: ignore[misc]
        waiting.append([call for call in calls if not call.done()])
        assert len(waiting[-1]) == count
        assert greedy.is_refused()
    assert sum(map(_ended, waiting)) == 0
    assert sum(map(len, waiting)) < LIMIT
    _is_served(server)
    for greedy, calls in zip(sessions, waiting, strict=True):
        _cancel(greedy, calls)
        greedy.end()


def _is_answered(call: tuple[RawPeer, int]) -> bool:
    peer, stream = call
    return (HEADERS, stream) in peer.frames


def test_requests_that_do_not_come_are_of_their_session(
    server: ServerProcess, greedy: Greedy
) -> None:
    names = ("Execute", "Compile", "DescribeSession", "Run")
    for _ in range(2):
        peers = [RawPeer(server.address, token=greedy.client.token or "") for _ in range(2)]

        def begin(count: int, peers: list[RawPeer] = peers) -> list[tuple[RawPeer, int]]:
            return [
                (peers[number % 2], peers[number % 2].call(names[number % len(names)]))
                for number in range(count)
            ]

        greedy.has_slots(0)
        calls = begin(EACH)
        greedy.has_slots(EACH)
        beyond = begin(TOO_MANY)
        for peer, call in beyond:
            peer.wait_for(HEADERS, call)
            assert TOLD.encode()[:80] in peer.header_blocks[call]
        assert not any(map(_is_answered, calls))
        assert greedy.is_refused()
        _is_served(server)
        for peer in peers:
            peer.close()
        until(lambda: not greedy.is_refused())


def test_names_of_no_session_are_counted_by_their_connection(server: ServerProcess) -> None:
    with RawPeer(server.address) as peer:
        calls = []
        for number in range(LIMIT):
            peer._metadata = [("xla-session", f"{number:043}")]
            calls.append(peer.call("/grpc.health.v1.Health/Check" if number % 2 else "Execute"))
        for call in calls[EACH:]:
            peer.wait_for(HEADERS, call)
        assert not any((HEADERS, call) in peer.frames for call in calls[:EACH])
        _is_served(server)


def test_calls_on_a_stream_are_of_their_session(server: ServerProcess, greedy: Greedy) -> None:
    for _ in range(3):
        stream = greedy.conversation(EACH + TOO_MANY)
        reported = [stream.receive() for _ in range(TOO_MANY)]
        assert [answer.id for answer in reported] == list(range(EACH + 1, EACH + TOO_MANY + 1))
        for answer in reported:
            status = status_pb2.Status.FromString(answer.status)
            assert TOLD in status.message
        assert greedy.is_refused()
        _is_served(server)
        stream.send(extension_pb2.ConverseRequest(id=1, cancel=True))
        assert stream.receive().id == 1
        until(lambda: not greedy.is_refused())
        stream.call.cancel()
        greedy.has_slots(0)


def test_who_has_the_last_answer_may_call_again(server: ServerProcess, greedy: Greedy) -> None:
    calls = greedy.wait(EACH - 1)
    until(lambda: _ended(calls) == 0)
    for _ in range(200):
        greedy.client.describe()
    with pytest.raises(grpc.RpcError):
        greedy.client("Execute", xla_pb2.ExecuteRequest())
    greedy.client.describe()
    _cancel(greedy, calls)
