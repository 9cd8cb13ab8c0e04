"""Streams and deferred calls over a real channel, with methods of the test's own."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from tests.fault.plain import until
from tests.unit.sessions.engines import shared_resources
from xla_contract.descriptors import EXTENSION_RPCS, RPCS, Rpc
from xla_contract.errors import AbortedError, NotBegunError, UnavailableError
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.calls.active_calls import ActiveCalls
from xla_server.rpc.calls.boundary import Boundary
from xla_server.rpc.calls.deferred import Responder
from xla_server.rpc.calls.method_table import Deferred, MethodSpec, Streaming, Unary, rpc_handlers
from xla_server.rpc.calls.streaming import Stream
from xla_server.rpc.limits.idle_streams import IdleTimer
from xla_server.rpc.threads.pools import Pool, Pools, PoolSizes
from xla_server.sessions.session_registry import SessionEntry, SessionRegistry

BY_NAME = {rpc.name: rpc for rpc in (*RPCS, *EXTENSION_RPCS)}


class Served:
    """A server of one rpc."""

    def __init__(self, rpc: Rpc, row: MethodSpec) -> None:
        self.rpc = rpc
        self.calls = ActiveCalls()
        self.sessions = SessionRegistry(shared_resources(1000))
        self.pools = Pools(PoolSizes(short=1))
        boundary = Boundary(self.sessions, self.calls, 1000)
        handlers = rpc_handlers([rpc], {rpc.name: row}, self.pools, boundary)
        service = rpc.path.split("/")[1]
        self.server = grpc.server(
            self.pools.threads[Pool.SHORT],
            handlers=[grpc.method_handlers_generic_handler(service, handlers)],
        )
        port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")

    def callable(self) -> Any:
        kinds = {
            (False, False): self.channel.unary_unary,
            (True, False): self.channel.stream_unary,
            (False, True): self.channel.unary_stream,
            (True, True): self.channel.stream_stream,
        }
        make = kinds[self.rpc.request_streaming, self.rpc.response_streaming]
        return make(
            self.rpc.path,
            request_serializer=self.rpc.request.SerializeToString,
            response_deserializer=self.rpc.response.FromString,
        )


@contextlib.contextmanager
def serving(name: str, row: MethodSpec) -> Iterator[Served]:
    served = Served(BY_NAME[name], row)
    yield served
    served.channel.close()
    served.calls.cancel_all()
    served.server.stop(None).wait()
    assert served.pools.close(20)
    # Whatever became of the calls, no session is in use any more.
    assert all(not session.users for session in served.sessions._all())


def shape() -> xla_pb2.GetShapeRequest:
    return xla_pb2.GetShapeRequest(data=xla_data_pb2.GlobalDataHandle(handle=1))


def test_messages_go_both_ways() -> None:
    def double(session: SessionEntry, stream: Stream, _: Cancellation) -> None:
        while (request := stream.receive()) is not None:
            stream.send(extension_pb2.ConverseResponse(id=2 * request.id))

    with serving("Converse", Streaming(double)) as served:
        requests = (extension_pb2.ConverseRequest(id=number) for number in range(5))
        assert [each.id for each in served.callable()(requests)] == [0, 2, 4, 6, 8]


def test_one_side_alone_may_stream() -> None:
    def count(session: SessionEntry, stream: Stream, _: Cancellation) -> None:
        total = 0
        while (request := stream.receive()) is not None:
            total += len(request.chunk.data)
        stream.send(extension_pb2.UploadResponse(data=xla_data_pb2.GlobalDataHandle(handle=total)))

    with serving("Upload", Streaming(count)) as served:
        chunk = extension_pb2.UploadRequest(chunk=extension_pb2.Chunk(data=b"abc"))
        assert served.callable()(iter([chunk] * 3)).data.handle == 9

    def repeat(session: SessionEntry, stream: Stream, _: Cancellation) -> None:
        for number in range(stream.receive().offset):
            stream.send(extension_pb2.DownloadResponse(chunk={"offset": number}))
        assert stream.receive() is None

    with serving("Download", Streaming(repeat)) as served:
        answers = served.callable()(extension_pb2.DownloadRequest(offset=3))
        assert [each.chunk.offset for each in answers] == [0, 1, 2]


def test_an_error_of_a_stream_has_its_code_and_no_cause() -> None:
    def fail(session: SessionEntry, stream: Stream, _: Cancellation) -> None:
        request = stream.receive()
        if request.id == 1:
            raise AbortedError("another stream came")
        raise ZeroDivisionError("the cause")

    with serving("Converse", Streaming(fail)) as served:
        for number, code in ((1, grpc.StatusCode.ABORTED), (2, grpc.StatusCode.INTERNAL)):
            with pytest.raises(grpc.RpcError) as caught:
                next(served.callable()(iter([extension_pb2.ConverseRequest(id=number)])))
            error: Any = caught.value
            assert error.code() is code
            assert "the cause" not in error.details()


def test_bytes_that_are_no_message_are_named() -> None:
    def receive(session: SessionEntry, stream: Stream, _: Cancellation) -> None:
        stream.receive()

    with serving("Converse", Streaming(receive)) as served:
        with pytest.raises(grpc.RpcError) as caught:
            next(served.channel.stream_stream(served.rpc.path)(iter([b"\xff"])))
        error: Any = caught.value
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "xla.ConverseRequest" in error.details()


def test_a_stream_that_waits_is_woken_when_the_client_leaves() -> None:
    ended = threading.Event()

    def wait(session: SessionEntry, stream: Stream, _: Cancellation) -> None:
        try:
            while stream.receive() is not None:
                stream.send(extension_pb2.ConverseResponse(id=1))
        finally:
            ended.set()

    with serving("Converse", Streaming(wait)) as served:
        forever = threading.Event()

        def requests() -> Iterator[extension_pb2.ConverseRequest]:
            yield extension_pb2.ConverseRequest()
            forever.wait(100)

        call = served.callable()(requests())
        assert next(call).id == 1
        call.cancel()
        assert ended.wait(100)
        forever.set()


def test_a_stream_that_waits_is_notified_when_the_server_stops() -> None:
    def wait(session: SessionEntry, stream: Stream, _: Cancellation) -> None:
        stream.send(extension_pb2.ConverseResponse(id=1))
        stream.receive()
        stream.receive()

    with serving("Converse", Streaming(wait)) as served:
        forever = threading.Event()

        def requests() -> Iterator[extension_pb2.ConverseRequest]:
            yield extension_pb2.ConverseRequest()
            forever.wait(100)

        call = served.callable()(requests())
        assert next(call).id == 1
        served.calls.cancel_all()
        with pytest.raises(grpc.RpcError) as caught:
            next(call)
        error: Any = caught.value
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        forever.set()


def silent_stream(served: Served) -> IdleTimer:
    """The silence of the one stream there is, once it has begun."""
    until(lambda: any(silence.since for silence in served.pools.silences))
    return next(silence for silence in served.pools.silences if silence.since)


def test_a_silent_stream_is_known_while_it_is_there_and_can_be_ended() -> None:
    def echo(session: SessionEntry, stream: Stream, _: Cancellation) -> None:
        while (request := stream.receive()) is not None:
            stream.send(extension_pb2.ConverseResponse(id=request.id))

    with serving("Converse", Streaming(echo)) as served:
        requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        call = served.callable()(iter(requests.get, None))
        requests.put(extension_pb2.ConverseRequest(id=7))
        assert next(call).id == 7
        silence = silent_stream(served)
        assert silence.peer.startswith("ipv4:127.0.0.1:")
        assert time.monotonic() - 20 < silence.since[0] < time.monotonic()
        assert silence.end(5.0, "a stream must speak")
        assert silence.ended_at == 5
        with pytest.raises(grpc.RpcError, match="Converse: a stream must speak") as caught:
            next(call)
        error: Any = caught.value
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        requests.put(None)
        until(lambda: not served.pools.silences)


def test_a_message_that_comes_when_its_stream_is_being_ended_is_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken, has_come, refuse = list[int](), threading.Event(), Stream._refuse
    monkeypatch.setattr(Stream, "_refuse", lambda stream: (has_come.set(), refuse(stream)))

    def receive(session: SessionEntry, stream: Stream, _: Cancellation) -> None:
        while (request := stream.receive()) is not None:
            taken.append(request.id)

    with serving("Converse", Streaming(receive)) as served:
        requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        call = served.callable()(iter(requests.get, None))
        requests.put(extension_pb2.ConverseRequest(id=1))
        until(lambda: taken)
        silence = silent_stream(served)
        # The thread that ends it does so first, a moment before the rest.
        silence.since.pop()
        requests.put(extension_pb2.ConverseRequest(id=2))
        assert has_come.wait(100)
        silence.cancel(NotBegunError("a stream must speak"))
        with pytest.raises(grpc.RpcError, match="a stream must speak"):
            next(call)
        requests.put(None)
        assert taken == [1]


def test_a_stream_that_is_cut_off_ends_at_once() -> None:
    def receive(session: SessionEntry, stream: Stream, _: Cancellation) -> None:
        stream.receive()
        stream.receive()

    with serving("Converse", Streaming(receive)) as served:
        requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        call = served.callable()(iter(requests.get, None))
        # It begins with its first message.
        requests.put(extension_pb2.ConverseRequest(id=1))
        silent_stream(served).reset()
        with pytest.raises(grpc.RpcError):
            next(call)
        requests.put(None)


def test_a_stream_without_a_token_has_a_session_when_its_first_message_is_there() -> None:
    is_served, may_end = threading.Event(), threading.Event()

    def serve(session: SessionEntry, stream: Stream, _: Cancellation) -> None:
        assert stream.receive().id == 5
        assert stream.receive() is None
        is_served.set()

    with serving("Converse", Streaming(serve)) as served:

        def requests() -> Iterator[extension_pb2.ConverseRequest]:
            may_end.wait(100)
            yield extension_pb2.ConverseRequest(id=5)

        call = served.callable()(requests())
        until(lambda: served.pools.expected.events)
        assert len(served.sessions) == 0
        may_end.set()
        assert list(call) == []
        assert is_served.is_set()
        assert len(served.sessions) == 1


@pytest.mark.parametrize("has_token", [False, True])
def test_a_stream_that_ends_without_a_message_must_name_its_session(has_token: bool) -> None:
    def receive(session: SessionEntry, stream: Stream, _: Cancellation) -> None:
        assert stream.receive() is None

    with serving("Converse", Streaming(receive)) as served:
        if has_token:
            token = served.sessions.open().token
            assert list(served.callable()(iter(()), metadata=[("xla-session", token)])) == []
            return
        with pytest.raises(grpc.RpcError, match="must begin with a message, or name its session"):
            next(served.callable()(iter(())))
        assert len(served.sessions) == 0


def deferred(begin: Callable[[Cancellation, Responder], None]) -> MethodSpec:
    return Deferred(Pool.SHORT, lambda service, request, cancel, answer: begin(cancel, answer))


def test_calls_that_wait_hold_no_thread() -> None:
    answers: list[Responder] = []
    with serving("GetShape", deferred(lambda _, answer: answers.append(answer))) as served:
        # There is one thread.
        calls = [served.callable().future(shape()) for _ in range(8)]
        until(lambda: len(answers) == 8)
        for number, answer in enumerate(answers):
            answer.done(xla_pb2.GetShapeResponse(shape={"dimensions": [number]}))
            answer.failed(AbortedError("too late"))
        found = [call.result(100).shape.dimensions[0] for call in calls]
        assert sorted(found) == list(range(8))


def test_a_deferred_call_may_fail_at_once_or_later() -> None:
    def fail(_: Cancellation, answer: Responder) -> None:
        raise AbortedError("at once")

    def later(_: Cancellation, answer: Responder) -> None:
        answer.later(lambda: 1 // 0)  # type: ignore[arg-type, return-value]

    for begin, code in ((fail, grpc.StatusCode.ABORTED), (later, grpc.StatusCode.INTERNAL)):
        with serving("GetShape", deferred(begin)) as served:
            with pytest.raises(grpc.RpcError) as caught:
                served.callable()(shape(), timeout=20)
            error: Any = caught.value
            assert error.code() is code


def test_a_deferred_call_is_cancelled_with_its_client() -> None:
    begun, left = threading.Event(), threading.Event()

    def begin(cancellation: Cancellation, answer: Responder) -> None:
        def leave() -> None:
            left.set()
            answer.failed(UnavailableError("gone"))

        cancellation.add_callback(leave)
        begun.set()

    with serving("GetShape", deferred(begin)) as served:
        call = served.callable().future(shape())
        assert begun.wait(100)
        call.cancel()
        assert left.wait(100)


def test_the_one_request_of_a_stream_is_waited_for_without_a_thread() -> None:
    gate = threading.Event()

    def silent() -> Iterator[bytes]:
        gate.wait(100)
        yield extension_pb2.DownloadRequest().SerializeToString()

    def serve(session: SessionEntry, stream: Stream, _: Cancellation) -> None:
        assert stream.receive() is not None

    with serving("Download", Streaming(serve)) as served:
        call = served.channel.stream_stream(served.rpc.path)(silent(), timeout=20)
        until(lambda: len(served.pools.expected.events) == 1)
        assert served.pools.threads[Pool.STREAM].is_idle()
        gate.set()
        assert list(call) == []
        assert not served.pools.expected.events


def test_rows_must_stream_as_the_contract_does() -> None:
    pools = Pools(PoolSizes())
    boundary: Any = None
    for name, row in (
        ("Converse", Unary(Pool.SHORT, lambda *_: b"")),
        ("GetShape", Streaming(lambda *_: None)),
    ):
        with pytest.raises(ValueError, match="must stream as its contract says"):
            rpc_handlers([BY_NAME[name]], {name: row}, pools, boundary)
    pools.close(1)


@pytest.mark.parametrize("name", ["Download", "Upload"])
def test_a_stream_whose_request_has_arrived_has_begun(name: str) -> None:
    """A draining server ends those that have not."""
    begun: list[bool] = []

    def method(_: SessionEntry, stream: Stream, __: Cancellation) -> None:
        begun.append(stream.silence.has_begun)

    with serving(name, Streaming(method)) as served:
        rpc = served.rpc
        request = iter(()) if rpc.request_streaming else rpc.request()
        metadata = (("xla-session", served.sessions.open().token),)
        call = served.callable()(request, metadata=metadata)
        if rpc.response_streaming:
            assert not list(call)
    assert begun == [not rpc.request_streaming]
