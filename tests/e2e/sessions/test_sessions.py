"""Sessions over real processes: ownership of values, and what remains when a client disconnects."""

import contextlib
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest
from grpc import StatusCode

import xla_client
from tests.e2e import modules
from tests.e2e.process import Raw, ServerProcess, refused, serving
from tests.fault.plain import until
from xla_contract.descriptors import EXTENSION_RPCS
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2

GRACE = 600.0


class Extension(Raw):
    """Calls of the extension have the session's token once there is one."""

    def __init__(self, address: str, token: str = "") -> None:
        super().__init__(address, own=True)
        self.token = token
        for rpc in EXTENSION_RPCS:
            if not (rpc.request_streaming or rpc.response_streaming):
                setattr(self, rpc.name, self._with_token(getattr(self, rpc.name)))

    def _with_token(self, method: Callable[..., Any]) -> Callable[[Any], Any]:
        return lambda request: method(
            request, metadata=[("xla-session", self.token)] if self.token else ()
        )

    def open(self, **fields: Any) -> Any:
        session = self.OpenSession(extension_pb2.OpenSessionRequest(**fields))
        self.token = session.token
        return session

    def live_bytes(self) -> int:
        """Bytes of all sessions, seen from one of its own or from that of its connection."""
        answer = self.DescribeSession(extension_pb2.DescribeSessionRequest())
        return int(answer.server_device_bytes)


server = serving(
    *("--session-grace-seconds", str(GRACE)),
    *("--session-device-bytes", "4000", "--session-executions", "2"),
)


def shape_request(handle: int) -> xla_pb2.GetShapeRequest:
    return xla_pb2.GetShapeRequest(data=xla_data_pb2.GlobalDataHandle(handle=handle))


def test_a_session_says_what_it_may_have(address: str) -> None:
    with contextlib.closing(Extension(address)) as extension:
        session = extension.open(client="a test")
        assert len(session.token) >= 43
        assert session.quotas.device_bytes == 4000
        assert session.quotas.concurrent_executions == 2
        assert session.grace_seconds == GRACE
        assert session.max_message_bytes > 0
        few = extension.open(capabilities=[1, 12345])
        assert set(few.capabilities) <= {1}
        extension.CloseSession(extension_pb2.CloseSessionRequest())


def test_the_handles_of_another_client_are_not_found(address: str) -> None:
    with xla_client.connect(address) as mine, xla_client.connect(address) as other:
        buffer = mine.to_device(np.float32([1, 2]))
        with pytest.raises(xla_client.NotFoundError, match="of this session"):
            other.adopt(buffer.handle)
        with contextlib.closing(Raw(address)) as raw:
            refused(StatusCode.NOT_FOUND, raw.GetShape, shape_request(buffer.handle))
        assert buffer.to_numpy().tolist() == [1, 2]


def test_plain_clients_have_a_session_for_each_connection(address: str) -> None:
    mine, other = Raw(address), Raw(address, own=True)
    handle = mine.upload(np.float32(1)).handle
    assert mine.GetShape(shape_request(handle))
    refused(StatusCode.NOT_FOUND, other.GetShape, shape_request(handle))
    for each in (mine, other):
        each.close()


def test_values_of_a_plain_client_go_some_time_after_its_connection(forgetful: str) -> None:
    with contextlib.closing(Extension(forgetful)) as watcher:
        # Values of earlier tests are freed some time later.
        until(lambda: watcher.live_bytes() == 0)
        raw = Raw(forgetful)
        raw.upload(np.zeros(100, np.float32))
        # Twice what they would last for without the connection.
        for _ in range(2):
            gone = Raw(forgetful, own=True)
            gone.upload(np.zeros(1, np.float32))
            assert watcher.live_bytes() == 404
            gone.close()
            until(lambda: watcher.live_bytes() == 400)
        raw.close()
        until(lambda: watcher.live_bytes() == 0)


def test_a_client_that_comes_back_finds_all_values(server: ServerProcess) -> None:
    address, connected = server.address, server.connections
    first = Extension(address)
    token = first.open().token
    raw = Raw(address)
    metadata = [("xla-session", token)]
    request = xla_pb2.TransferToServerRequest(literal=modules.literal(np.float32([1, 2, 3])))
    handle = raw.TransferToServer(request, metadata=metadata).data.handle
    first.close()
    raw.close()
    until(lambda: server.connections <= connected)
    second = Extension(address)
    assert second.open(resume_token=token).token == token
    raw = Raw(address)
    data = xla_pb2.TransferToClientRequest(data=xla_data_pb2.GlobalDataHandle(handle=handle))
    assert raw.TransferToClient(data, metadata=metadata).literal.f32s == [1, 2, 3]
    second.CloseSession(extension_pb2.CloseSessionRequest())
    for call, request, code in (
        (raw.TransferToClient, data, StatusCode.UNAUTHENTICATED),
        (raw.GetShape, shape_request(handle), StatusCode.UNAUTHENTICATED),
    ):
        refused(code, call, request, metadata=metadata)
    with pytest.raises(grpc.RpcError, match="live session"):
        Extension(address).open(resume_token=token)
    raw.close()
    second.close()


def test_an_executable_is_shared_and_each_session_frees_its_own(address: str) -> None:
    with xla_client.connect(address) as mine, xla_client.connect(address) as other:
        builder = xla_client.Builder("shared")
        computation = builder.build(builder.constant(np.float32(7)))
        first, second = mine.compile(computation), other.compile(computation)
        assert second.run() == 7
        first.delete()
        assert second.run() == 7


def test_feeds_belong_to_a_session(address: str) -> None:
    with xla_client.connect(address) as mine, xla_client.connect(address) as other:
        mine.device().to_infeed(np.float32(1))
        other.device().to_infeed(np.float32(2))
        builder = xla_client.Builder("feed")
        computation = builder.build(builder.infeed(xla_client.Shape.parse("f32[]")))
        assert other.compile(computation).run() == 2
        assert mine.compile(computation).run() == 1
