"""A client of nothing but grpc and the messages, in one session, over a connection of its own."""

import contextlib
import copy
import json
import queue
import time
from collections.abc import Callable
from typing import Any, Self

import grpc
import pytest

import xla_client as xc
from tests.e2e.process import ServerProcess
from xla_contract.descriptors import EXTENSION_RPCS, RPCS
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.wire.shape_proto import shape_to_proto

_OPTIONS = [
    # Channels of one process would share a connection.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
]
RPCS_BY_NAME = {rpc.name: rpc for rpc in (*RPCS, *EXTENSION_RPCS)}


class Stream:
    """One streaming call, whose requests are sent when the test says so."""

    def __init__(self, channel: grpc.Channel, name: str, metadata: Any, request: Any) -> None:
        rpc = RPCS_BY_NAME[name]
        serialize, parse = rpc.request.SerializeToString, rpc.response.FromString
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        source = iter(self._requests.get, None)
        if not rpc.request_streaming:
            self._requests.put(None)  # No thread waits in this iterator.
            self.call: Any = channel.unary_stream(rpc.path, serialize, parse)(
                request, metadata=metadata, timeout=120
            )
        elif rpc.response_streaming:
            stream = channel.stream_stream(rpc.path, serialize, parse)
            self.call = stream(source, metadata=metadata, timeout=120)
        else:
            upload = channel.stream_unary(rpc.path, serialize, parse)
            self.call = upload.future(source, metadata=metadata, timeout=120)
        self.call.add_callback(lambda: self._requests.put(None))

    def send(self, *messages: Any) -> None:
        for message in messages:
            self._requests.put(message)

    def half_close(self) -> None:
        self._requests.put(None)

    def receive(self) -> Any:
        return next(self.call)

    def result(self, timeout: float | None = None) -> Any:
        """The answer of a stream that has one; of others, their next message."""
        if isinstance(self.call, grpc.Future):
            return self.call.result(timeout)
        return next(self.call)


class Plain:
    """Calls of both services; opens a session of its own unless one is given."""

    def __init__(self, address: str, token: str | None = None, bearer: str = "") -> None:
        self.address = address
        self.authorization = (("authorization", f"Bearer {bearer}"),) if bearer else ()
        self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        self._metadata: tuple[tuple[str, str], ...] = self.authorization
        self._calls = {
            rpc.name: self._channel.unary_unary(
                rpc.path, rpc.request.SerializeToString, rpc.response.FromString
            )
            for rpc in RPCS_BY_NAME.values()
            if not rpc.request_streaming and not rpc.response_streaming
        }
        if token is None:
            token = self("OpenSession", extension_pb2.OpenSessionRequest()).token
        self._take(token)

    def _take(self, token: str) -> None:
        """Be a client of a session, or with no token of the default one of the connection."""
        self.token = token
        session = (("xla-session", token),) if token else ()
        self._metadata = (*self.authorization, *session)

    def __call__(self, name: str, request: Any, timeout: float = 60) -> Any:
        return self._calls[name](
            request, timeout=timeout, metadata=self._metadata, wait_for_ready=True
        )

    def connect(self) -> None:
        """Have a connection again, and nothing under way on it."""
        while True:
            with contextlib.suppress(grpc.RpcError):
                self.describe()
                return

    def begin(self, name: str, request: Any) -> Any:
        """A unary call under way."""
        return self._calls[name].future(request, timeout=120, metadata=self._metadata)

    def stream(self, name: str, request: Any = None) -> Stream:
        return Stream(self._channel, name, self._metadata, request)

    def converse(self, name: str, request: Any) -> Stream:
        """A unary call under way on a stream of its own."""
        stream = self.stream("Converse")
        path, data = RPCS_BY_NAME[name].path[1:], request.SerializeToString()
        stream.send(extension_pb2.ConverseRequest(id=1, method=path, request=data))
        return stream

    def beside(self, address: str) -> "Plain":
        """A client of the same session over a connection of its own."""
        return Plain(address, self.token)

    def also(self) -> Self:
        """A client of a session of its own over the same connection, which is this one's."""
        return self.of(self("OpenSession", extension_pb2.OpenSessionRequest()).token)

    def of(self, token: str) -> Self:
        """A client of another session over the same connection."""
        other = copy.copy(self)
        other._take(token)
        return other

    def close(self) -> None:
        self._channel.close()

    def end_session(self) -> None:
        self("CloseSession", extension_pb2.CloseSessionRequest())
        self.close()

    def describe(self) -> extension_pb2.DescribeSessionResponse:
        return self("DescribeSession", extension_pb2.DescribeSessionRequest())

    def counters(self) -> tuple[int, int, int]:
        """Sessions, bytes on the devices and bytes of shared memory of the whole server."""
        answer = self.describe()
        return answer.server_sessions, answer.server_device_bytes, answer.server_shared_bytes

    def calls(self) -> int:
        """Calls of the whole server that have slots, of which this is one."""
        request = extension_pb2.DescribeServerRequest(sessions=1)
        return int(self("DescribeServer", request).calls.used)

    def executions(self) -> tuple[int, int]:
        """The session's executions that run, and those launched that have not ended."""
        use = self.describe().use
        return use.concurrent_executions, use.launched_executions

    def compile(self, computation: xc.Computation) -> xla_data_pb2.ExecutionHandle:
        return self("Compile", self.compile_request(computation)).handle

    def compile_request(self, computation: xc.Computation) -> xla_pb2.CompileRequest:
        request = xla_pb2.CompileRequest()
        computation.write_to(request.computation)
        for shape in computation.program_shape.parameters:
            parameter = request.input_shape_with_layout.add()
            parameter.CopyFrom(shape_to_proto(shape.with_default_layout()))
        return request


def token_of(client: xc.Client) -> str:
    """The token of a client's session."""
    opened = client._session.transport.session
    assert opened is not None
    return opened.token


def has_drained(server: ServerProcess) -> None:
    """Wait for a server that was signalled to stop; its log says that nothing is left."""
    assert server.process.wait(60) == 0
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    assert not any("exception" in line for line in lines), lines
    assert lines[-1]["message"] == "drained", lines
    assert (lines[-1]["device_bytes"], lines[-1]["shared_bytes"]) == (0, 0)


def until(condition: Callable[[], object], seconds: float = 100) -> None:
    """Wait until a condition holds.

    It fails a little before pytest would end the process that all tests of a worker share.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.01)


def ends_unavailable(call: Any) -> str:
    """The message of the UNAVAILABLE that a call under way, or a stream, ends with."""
    with pytest.raises(grpc.RpcError) as caught:
        call.result(timeout=100)
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.UNAVAILABLE, error.details()
    return str(error.details())
