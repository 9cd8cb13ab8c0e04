"""Errors as a server sends them, and as the client raises them."""

import math
import signal
from concurrent import futures

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

import xla_client
from xla_client import (
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    ShapeError,
    UnavailableError,
    UnimplementedError,
    UnknownError,
    XlaError,
)
from xla_client.transport.transport import Transport
from xla_contract.errors import ERROR_BY_CODE, NotBegunError, StatusCode
from xla_contract.stubs import xla_pb2


class _Refuses(grpc.GenericRpcHandler):
    """A server whose every answer is the status in `self.status`."""

    status: status_pb2.Status

    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(self._answer)

    def _answer(self, request, context):
        context.abort_with_status(rpc_status.to_status(self.status))


@pytest.fixture(scope="module")
def refusing():
    handler = _Refuses()
    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[handler])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    transport = Transport(f"127.0.0.1:{port}", credentials=None, metadata=(), timeout=None)
    yield handler, transport
    transport.close()
    server.stop(None)


def _status(code: int, message: str, reason: str = "", **metadata: str) -> status_pb2.Status:
    status = status_pb2.Status(code=code, message=message)
    if reason:
        info = error_details_pb2.ErrorInfo(reason=reason, domain="xla-service", metadata=metadata)
        detail = any_pb2.Any()
        detail.Pack(info)
        status.details.append(detail)
    return status


def _raised(refusing, status: status_pb2.Status) -> XlaError:
    handler, transport = refusing
    handler.status = status
    with pytest.raises(XlaError) as caught:
        transport.call("GetShape", xla_pb2.GetShapeRequest())
    return caught.value


@pytest.mark.parametrize("code", list(StatusCode), ids=lambda code: code.name)
def test_every_status_has_its_class(refusing, code):
    error = _raised(refusing, _status(code, "the rule, got this"))
    assert type(error) is ERROR_BY_CODE.get(code, UnknownError)
    assert str(error) == "GetShape: the rule, got this"


def test_details_restore_class_and_position(refusing):
    status = _status(
        code_pb2.INVALID_ARGUMENT,
        "dot %d.7: the rule, got this",
        "ShapeError",
        op="dot",
        instruction="d.7",
        hint="transpose it",
        incident="ab12",
    )
    error = _raised(refusing, status)
    assert type(error) is ShapeError
    assert (error.message, error.op, error.instruction, error.hint, error.incident) == (
        "dot %d.7: the rule, got this",
        "dot",
        "d.7",
        "transpose it",
        "ab12",
    )


@pytest.mark.parametrize("reason", ["ClassOfTheFuture", "NotFoundError", "Enum"])
def test_unknown_class_falls_back_on_the_code(refusing, reason):
    error = _raised(refusing, _status(code_pb2.INVALID_ARGUMENT, "m", reason))
    assert type(error) is InvalidArgumentError


def test_a_server_without_sessions_has_none_to_go_on_with(refusing):
    handler, transport = refusing
    handler.status = _status(code_pb2.UNIMPLEMENTED, "Method not found!")
    with xla_client.connect(transport.target) as client, pytest.raises(UnimplementedError):
        client.session_token  # noqa: B018
    with pytest.raises(UnimplementedError, match="must have sessions with tokens to go on"):
        xla_client.connect(transport.target, session="A" * 43)


def test_no_server_listens():
    with pytest.raises(UnavailableError, match=r"no answer from unix:/nowhere in 0\.2 s"):
        xla_client.connect("unix:/nowhere", connect_timeout=0.2)


def test_a_call_while_no_server_listens_says_when_to_repeat_it():
    transport = Transport("unix:/nowhere", credentials=None, metadata=(), timeout=None)
    with pytest.raises(UnavailableError, match="GetShape: a server must listen at the") as caught:
        transport.call("GetShape", xla_pb2.GetShapeRequest())
    assert "repeat the call" in caught.value.hint
    # So a call on a stream is made as an ordinary one, whose error has the call's name.
    assert isinstance(caught.value, NotBegunError)
    transport.close()


def test_deadline_of_the_call_and_of_the_client():
    class Silent(grpc.GenericRpcHandler):
        def service(self, details):
            return grpc.unary_unary_rpc_method_handler(lambda request, context: hold.result(9))

    hold: futures.Future[bytes] = futures.Future()
    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[Silent()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    transport = Transport(f"127.0.0.1:{port}", credentials=None, metadata=(), timeout=0.1)
    try:
        for timeout in (None, 0.05):
            with pytest.raises(DeadlineExceededError, match=r"^GetShape: the answer must come bef"):
                transport.call("GetShape", xla_pb2.GetShapeRequest(), timeout)
        hold.set_result(b"")
        # A server that answers at once is none the faster.
        for begin in (transport.call, transport.start):
            for timeout in (0, -1.5):
                with pytest.raises(DeadlineExceededError, match=f"deadline, got {timeout:g} s"):
                    begin("GetShape", xla_pb2.GetShapeRequest(), timeout)
        hold = futures.Future()
        pending = transport.start("GetShape", xla_pb2.GetShapeRequest(), 9)
        with pytest.raises(DeadlineExceededError, match=r"in 0\.05 s"):
            pending.result(0.05)
        assert not pending.done()
        hold.set_result(b"")
        pending.result(9)
        # grpc would take more than some hundred years for a time in the past.
        for timeout in (1e9, 1e30, math.inf):
            transport.call("GetShape", xla_pb2.GetShapeRequest(), timeout)
            transport.start("GetShape", xla_pb2.GetShapeRequest(), timeout).result(timeout)
    finally:
        transport.close()
        server.stop(None)
    with pytest.raises(UnavailableError, match="got a closed one"):
        transport.call("GetShape", xla_pb2.GetShapeRequest())


@pytest.mark.parametrize("begin", ["call", "start", "stream"])
def test_a_call_that_begins_while_the_client_closes_says_so(
    monkeypatch: pytest.MonkeyPatch, begin: str
) -> None:
    transport = Transport("127.0.0.1:1", credentials=None, metadata=(), timeout=None)
    monkeypatch.setattr(transport, "_deadline", lambda name, timeout: transport.close())
    name = "Infeed" if begin == "stream" else "GetShape"
    request = None if begin == "stream" else xla_pb2.GetShapeRequest()
    with pytest.raises(UnavailableError, match="must be open, got a closed one"):
        getattr(transport, begin)(name, request, 9)


class _Reset(grpc.RpcError):
    """A call whose stream the server has reset."""

    def code(self):
        return grpc.StatusCode.CANCELLED

    def details(self):
        return "CANCELLED"

    def trailing_metadata(self):
        return ()

    def result(self, timeout):
        raise self


def test_a_stream_that_the_server_resets_at_the_deadline_is_no_cancellation(monkeypatch):
    transport = Transport("127.0.0.1:1", credentials=None, metadata=(), timeout=None)

    class ResetAfterHalfASecond:
        def __call__(self, *_, **__):
            raise self.future()

        def future(self, *_, **__):
            clock[0] += 0.5
            return _Reset()

    monkeypatch.setitem(transport._calls, "GetShape", ResetAfterHalfASecond())
    clock = [7.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    request = xla_pb2.GetShapeRequest()
    for call in (transport.call, lambda *given: transport.start(*given).result()):
        with pytest.raises(DeadlineExceededError, match=r"before the deadline, got none in time"):
            call("GetShape", request, 0.4)
        for timeout in (0.6, None):
            with pytest.raises(CancelledError, match=r"^GetShape: CANCELLED$"):
                call("GetShape", request, timeout)
    monkeypatch.setitem(transport._calls, "OpenSession", ResetAfterHalfASecond())
    with pytest.raises(UnavailableError, match=r"no answer from 127\.0\.0\.1:1 in 0\.4 s"):
        transport.open(0.4)
    transport.close()


def test_ctrl_c_does_not_end_the_beginning_of_a_call_halfway(monkeypatch):
    transport = Transport("127.0.0.1:1", credentials=None, metadata=(), timeout=None)
    steps = []

    class Interrupted:
        def future(self, *_, **__):
            signal.raise_signal(signal.SIGINT)
            steps.append("whole")

    monkeypatch.setitem(transport._calls, "GetShape", Interrupted())
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            transport.start("GetShape", xla_pb2.GetShapeRequest())
    finally:
        signal.signal(signal.SIGINT, before)
        transport.close()
    assert steps == ["whole"]
