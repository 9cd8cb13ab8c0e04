"""Sessions of clients without a token: no client gets another's, whatever address it calls from."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from grpc import StatusCode

from tests.e2e import modules
from tests.e2e.fixed_port import FixedPort, free_port
from tests.e2e.process import Raw, refused, start_server
from tests.e2e.sessions.test_sessions import Extension, shape_request
from tests.fault.plain import until
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2

GRACE = "600"
ONE = np.float32([1, 2, 3])


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server on all local addresses that keeps sessions for long."""
    flags = ("--platform", "interpreter", "--listen", "0.0.0.0:0")
    with start_server(
        tmp_path_factory.mktemp("server"), *flags, "--session-grace-seconds", GRACE
    ) as server:
        yield int(server.ready["addresses"][-1].rpartition(":")[2])


class Tokenless(Raw):
    """All unary rpcs over the one connection of a relay."""

    def __init__(self, relay: FixedPort) -> None:
        super().__init__(relay.address, own=True)

    def handles(self, **named: Any) -> list[int]:
        """Return the handles that a listing of the session has."""
        answer = self.DescribeHandles(extension_pb2.DescribeHandlesRequest(), **named)
        return [each.handle for each in answer.handles]

    def attempts(self, handle: int) -> list[tuple[Callable[..., Any], Any]]:
        """All ways of taking a part in a value."""
        data = xla_data_pb2.GlobalDataHandle(handle=handle)
        requested = extension_pb2.DescribeHandlesRequest(handles=[handle])
        return [
            (self.GetShape, shape_request(handle)),
            (self.TransferToClient, xla_pb2.TransferToClientRequest(data=data)),
            (self.Unregister, xla_pb2.UnregisterRequest(data=[data])),
            (self.DescribeHandles, requested),
        ]


def test_who_comes_from_the_same_port_within_the_grace_period_finds_nothing(port: int) -> None:
    local = ("127.0.0.1", free_port())
    relay = FixedPort("127.0.0.1", port, local)
    first = Tokenless(relay)
    handle = first.upload(ONE).handle
    assert first.handles() == [handle]
    relay.close()
    first.close()
    relay = FixedPort("127.0.0.1", port, local)
    second = Tokenless(relay)
    assert second.handles() == []
    for call, request in second.attempts(handle):
        refused(StatusCode.NOT_FOUND, call, request)
    with contextlib.closing(Extension(f"127.0.0.1:{port}")) as watcher:
        # The session cannot be resumed, so it ends without waiting for the grace period.
        until(lambda: watcher.live_bytes() == 0)
    second.close()
    relay.close()


def test_who_comes_from_the_same_port_to_another_local_address_finds_nothing(port: int) -> None:
    local = ("127.0.0.1", free_port())
    relay = FixedPort("127.0.0.1", port, local)
    mine = Tokenless(relay)
    handle = mine.upload(ONE).handle
    elsewhere = FixedPort("127.0.0.2", port, local)
    other = Tokenless(elsewhere)
    for call, request in other.attempts(handle):
        reported = refused(StatusCode.UNAUTHENTICATED, call, request)
        assert "tell from all others" in reported
    # With a token all is as ever, and nothing of the other's is there.
    opened = other.OpenSession(extension_pb2.OpenSessionRequest())
    metadata = [("xla-session", opened.token)]
    assert other.handles(metadata=metadata) == []
    for call, request in other.attempts(handle):
        refused(StatusCode.NOT_FOUND, call, request, metadata=metadata)
    # What needs no session is answered.
    assert other.GetDeviceHandles(xla_pb2.GetDeviceHandlesRequest(device_count=1))
    other.close()
    elsewhere.close()

    def is_told_again() -> bool:
        try:
            return mine.handles() == [handle]
        except grpc.RpcError as error:
            code: Any = error
            assert code.code() is StatusCode.UNAUTHENTICATED
            return False

    until(is_told_again)
    mine.close()
    relay.close()


def test_unused_sessions_go_with_the_connection_that_opened_them(port: int) -> None:
    with contextlib.closing(Extension(f"127.0.0.1:{port}")) as watcher:
        watcher.open()

        def count() -> int:
            requested = extension_pb2.DescribeSessionRequest()
            return int(watcher.DescribeSession(requested).server_sessions)

        before = count()
        relay = FixedPort("127.0.0.1", port, ("127.0.0.1", 0))
        opening = Tokenless(relay)
        for _ in range(50):
            opening.OpenSession(extension_pb2.OpenSessionRequest())
        assert count() > 50
        opening.close()
        relay.close()
        # Sessions of other tests may go meanwhile.
        until(lambda: count() <= before)
        watcher.CloseSession(extension_pb2.CloseSessionRequest())


def test_an_executable_of_another_session_is_not_found(port: int) -> None:
    target = f"127.0.0.1:{port}"
    mine = Raw(target)
    handle = mine.compile(modules.axpy())
    other = Raw(target, own=True)
    refused(StatusCode.NOT_FOUND, other.Execute, xla_pb2.ExecuteRequest(handle=handle))
    for each in (mine, other):
        each.close()


def test_over_a_unix_socket_values_need_a_token(tmp_path: Path) -> None:
    listen = f"unix:{tmp_path}/socket"
    with start_server(tmp_path, "--platform", "interpreter", "--listen", listen) as server:
        target = server.ready["addresses"][-1]
        raw, extension = Raw(target), Extension(target)
        request = xla_pb2.TransferToServerRequest(literal=modules.literal(ONE))
        refused(StatusCode.UNAUTHENTICATED, raw.TransferToServer, request)
        metadata = [("xla-session", extension.open().token)]
        assert raw.TransferToServer(request, metadata=metadata).data.handle
        assert raw.GetDeviceHandles(xla_pb2.GetDeviceHandlesRequest(device_count=1))
        raw.close()
        extension.close()
