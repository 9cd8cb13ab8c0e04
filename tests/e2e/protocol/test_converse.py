"""Many unary calls on one stream, over a real server and a plain grpc client."""

import queue
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from google.rpc import error_details_pb2, status_pb2

import xla_client as xc
from tests.e2e import modules
from tests.e2e.process import serving, start_server
from tests.e2e.runs.test_executions import Extension
from tests.fault.plain import until
from tests.unit.sessions.sample_runs import ADD, DOUBLE, endless, program
from xla_contract.descriptors import EXTENSION_RPCS
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2

ONES = np.ones(4, np.float32)
CONVERSE = next(rpc for rpc in EXTENSION_RPCS if rpc.name == "Converse")


server = serving()


@pytest.fixture
def raw(address: str) -> Iterator[Extension]:
    client = Extension(address)
    yield client
    client.close()


class Conversation:
    """A stream of Converse."""

    def __init__(self, raw: Extension) -> None:
        self._requests: queue.Queue[Any] = queue.Queue()
        method = raw._channel.stream_stream(
            CONVERSE.path,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=CONVERSE.response.FromString,
        )
        self.call = method(iter(self._requests.get, None))
        self._number = 0

    def begin(self, method: str, request: Any, **fields: Any) -> int:
        self._number += 1
        message = extension_pb2.ConverseRequest(
            id=self._number,
            method=method if "/" in method else f"xla.XlaService/{method}",
            request=request.SerializeToString(),
        )
        for name, field in fields.items():
            setattr(message, name, field)
        self._requests.put(message)
        return message.id

    def send(self, message: extension_pb2.ConverseRequest) -> None:
        self._requests.put(message)

    def cancel(self, number: int) -> None:
        self.send(extension_pb2.ConverseRequest(id=number, cancel=True))

    def end(self) -> None:
        self._requests.put(None)

    def answer(self) -> Any:
        return next(self.call)

    def refused(self, number: int, code: grpc.StatusCode) -> str:
        """The message of the error that a call is answered with, which has details."""
        answer = self.answer()
        assert answer.id == number
        status = status_pb2.Status.FromString(answer.status)
        assert status.code == code.value[0], status
        info = error_details_pb2.ErrorInfo()
        assert status.details[0].Unpack(info)
        assert info.domain == "xla-service"
        return status.message


def _infinite(raw: Extension) -> xla_pb2.ExecuteRequest:
    loop = xla_data_pb2.ExecutionHandle(handle=raw.loaded(endless()))
    return xla_pb2.ExecuteRequest(handle=loop, arguments=[raw.upload(ONES)])


def test_calls_of_both_services_are_answered(raw: Extension) -> None:
    talk = Conversation(raw)
    request = xla_pb2.TransferToServerRequest(literal=modules.literal(ONES))
    number = talk.begin("TransferToServer", request)
    answer = talk.answer()
    assert answer.id == number
    data = xla_pb2.TransferToServerResponse.FromString(answer.response).data
    np.testing.assert_array_equal(raw.download(data).f32s, ONES)
    compile_request = xla_pb2.CompileRequest()
    program(DOUBLE).write_to(compile_request.computation)
    compile_request.input_shape_with_layout.append(modules.shape("f32[4]"))
    talk.begin("Compile", compile_request)
    compiled = xla_pb2.CompileResponse.FromString(talk.answer().response)
    execute = xla_pb2.ExecuteRequest(handle=compiled.handle, arguments=[data])
    for _ in range(50):
        talk.begin("Execute", execute)
    assert sorted(talk.answer().id for _ in range(50)) == list(range(3, 53))
    talk.begin("xla.XlaExtensionService/DescribeSession", extension_pb2.DescribeSessionRequest())
    described = extension_pb2.DescribeSessionResponse.FromString(talk.answer().response)
    assert described.use.handles == 51
    talk.end()
    assert list(talk.call) == []
    assert talk.call.code() is grpc.StatusCode.OK


def test_a_call_fails_by_itself(raw: Extension) -> None:
    talk = Conversation(raw)
    wrong = xla_pb2.GetShapeRequest(data=xla_data_pb2.GlobalDataHandle(handle=5))
    message = talk.refused(talk.begin("GetShape", wrong), grpc.StatusCode.NOT_FOUND)
    assert message.startswith("GetShape: ")
    for path in ("Nope", "xla.XlaExtensionService/Converse", "xla.XlaExtensionService/Upload"):
        message = talk.refused(talk.begin(path, wrong), grpc.StatusCode.UNIMPLEMENTED)
        assert "unary rpc" in message
    broken = extension_pb2.ConverseRequest(id=99, method="xla.XlaService/GetShape")
    broken.request = b"\x07"
    talk.send(broken)
    assert "bytes that are none" in talk.refused(99, grpc.StatusCode.INVALID_ARGUMENT)
    waiting = talk.begin("Execute", _infinite(raw))
    talk.begin("GetShape", wrong, id=waiting)
    assert "in use" in talk.refused(waiting, grpc.StatusCode.INVALID_ARGUMENT)
    talk.call.cancel()
    until(lambda: raw.executions() == 0)


def test_bytes_that_are_no_call_end_the_stream(raw: Extension) -> None:
    method = raw._channel.stream_stream(CONVERSE.path)
    call = method(iter([b"\x07"]))
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]


def test_a_long_call_delays_no_other(raw: Extension) -> None:
    talk = Conversation(raw)
    request = _infinite(raw)
    shape = xla_pb2.GetShapeRequest(data=request.arguments[0])
    long = [talk.begin("Execute", request) for _ in range(3)]
    short = talk.begin("GetShape", shape)
    assert talk.answer().id == short
    until(lambda: raw.executions() == 3)
    talk.cancel(long[1])
    assert "gave the call up" in talk.refused(long[1], grpc.StatusCode.CANCELLED)
    late = talk.begin("Execute", request, timeout_milliseconds=100)
    assert "deadline" in talk.refused(late, grpc.StatusCode.DEADLINE_EXCEEDED)
    talk.cancel(12345)
    # Those given up are answered at once, and end a moment later.
    until(lambda: raw.executions() == 2)
    # The end of the stream stops what is left.
    talk.call.cancel()
    until(lambda: raw.executions() == 0)


def test_a_deadline_is_seen_when_nothing_else_happens(raw: Extension) -> None:
    talk = Conversation(raw)
    shape = modules.shape("f32[4]")
    request = xla_pb2.TransferFromOutfeedRequest(shape_with_layout=shape)
    late = talk.begin("TransferFromOutfeed", request, timeout_milliseconds=400)
    talk.refused(late, grpc.StatusCode.DEADLINE_EXCEEDED)


def test_what_was_begun_is_answered_after_the_last_call(raw: Extension) -> None:
    talk = Conversation(raw)
    late = talk.begin("Execute", _infinite(raw), timeout_milliseconds=200)
    talk.end()
    talk.refused(late, grpc.StatusCode.DEADLINE_EXCEEDED)
    assert list(talk.call) == []
    assert talk.call.code() is grpc.StatusCode.OK


def test_a_client_falls_back_when_its_stream_breaks(address: str) -> None:
    with xc.connect(address) as client:
        conversation = client._session.transport._conversation
        assert conversation is not None
        add = client.compile(program(ADD))
        np.testing.assert_array_equal(add.run(ONES, ONES), 2 * ONES)
        stream = conversation._stream
        assert stream is not None
        stream.cancel()
        np.testing.assert_array_equal(add.run(ONES, ONES), 2 * ONES)
        # If a stream breaks in the middle of a call, the client cannot tell whether it was made.
        again = conversation._open()
        assert again is not None
        again.send = lambda _: again.cancel()  # type: ignore[method-assign]
        with pytest.raises(xc.UnavailableError, match="until the answer"):
            add.run(ONES, ONES)
        buffer = add(ONES, ONES)
        again = conversation._open()
        assert again is not None
        again.send = lambda _: again.cancel()  # type: ignore[method-assign]
        assert client.adopt(buffer.handle).shape == buffer.shape  # type: ignore[union-attr]
        with pytest.raises(xc.InvalidArgumentError, match="parameters"):
            client._session.call(
                "Execute",
                xla_pb2.ExecuteRequest(handle=xla_data_pb2.ExecutionHandle(handle=add.handle)),
            )


def test_a_server_that_stops_ends_idle_streams_and_finishes_calls(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    flags = ("--platform", "interpreter", "--grace-seconds", "30")
    with start_server(tmp_path_factory.mktemp("server"), *flags) as running:
        idle, busy = Extension(running.address), Extension(running.address)
        talks = Conversation(idle), Conversation(busy)
        shape = modules.shape("f32[4]")
        request = xla_pb2.TransferFromOutfeedRequest(shape_with_layout=shape)
        late = talks[1].begin("TransferFromOutfeed", request, timeout_milliseconds=1500)
        for talk in talks:
            # Calls are read in order: with its answer, those before are in progress.
            talk.begin("GetShape", xla_pb2.GetShapeRequest())
            talk.answer()
        running.process.terminate()
        with pytest.raises(grpc.RpcError) as caught:
            talks[0].answer()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]
        talks[1].refused(late, grpc.StatusCode.DEADLINE_EXCEEDED)
        assert running.process.wait(60) == 0
        idle.close()
        busy.close()
