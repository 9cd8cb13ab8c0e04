"""The stream that is read in the thread of its user, against grpc's own server."""

import _thread
import signal
import threading
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest

from tests.fault.plain import until
from tests.unit.client.ctrl_c import press_in
from tests.unit.waiting import waits
from xla_client.transport import inline_stream
from xla_client.transport.errors import exception_of
from xla_client.transport.inline_stream import InlineStream, open_inline_stream
from xla_client.transport.stream import ClientStream
from xla_contract.errors import CancelledError, FailedPreconditionError, XlaError

PATH = "/test.Echo/Talk"


class Server:
    """Answers what it is sent, and ends streams as messages request."""

    def __init__(self) -> None:
        self.metadata: Any = None
        self.left = threading.Event()
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        handler = grpc.stream_stream_rpc_method_handler(self._talk)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("test.Echo", {"Talk": handler}),)
        )
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.target = f"127.0.0.1:{port}"
        self._server.start()

    def _talk(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        self.metadata = dict(context.invocation_metadata())
        context.add_callback(self.left.set)
        for request in requests:
            if request == b"end":
                return
            if request == b"fail":
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not now")
            if request != b"wait":
                yield request
            if request == b"last":
                return

    def stop(self) -> None:
        self._server.stop(0).wait()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.stop()


@pytest.fixture
def channel(server: Server) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.target) as made:
        yield made


@pytest.fixture
def stream(channel: grpc.Channel) -> Iterator[InlineStream]:
    made = open_inline_stream("Talk", channel, PATH, (("key", "value"),), exception_of)
    assert made is not None
    yield made
    made.close()


def exchanged(stream: InlineStream, message: bytes) -> bytes | None:
    stream.send(message)
    return stream.receive()


def test_messages_go_there_and_back(server, stream, monkeypatch) -> None:
    assert [exchanged(stream, each) for each in (b"a", b"", b"b" * 100_000)] == [
        b"a",
        b"",
        b"b" * 100_000,
    ]
    assert server.metadata["key"] == "value"
    # After a pause it asks grpc again.
    monkeypatch.setattr(inline_stream, "_PAUSE", 0.0)
    assert stream.is_active
    assert exchanged(stream, b"after a pause") == b"after a pause"


def test_the_end_of_the_stream_is_no_message(stream) -> None:
    assert exchanged(stream, b"end") is None
    assert not stream.is_active
    with pytest.raises(CancelledError, match="must go on"):
        stream.send(b"a")


def test_an_error_is_that_of_the_server(stream) -> None:
    with pytest.raises(FailedPreconditionError, match="not now"):
        exchanged(stream, b"fail")
    assert not stream.is_active
    with pytest.raises(FailedPreconditionError, match="not now"):
        stream.send(b"a")


def test_an_unobserved_end_is_seen_before_the_next_message(stream) -> None:
    assert exchanged(stream, b"last") == b"last"
    until(lambda: not stream.is_active)


def test_who_waits_is_woken_when_another_thread_gives_the_stream_up(server, stream) -> None:
    assert exchanged(stream, b"a") == b"a"
    stream.send(b"wait")
    raised: list[XlaError] = []

    def receive() -> None:
        try:
            stream.receive()
        except XlaError as error:
            raised.append(error)

    waiting = threading.Thread(target=receive)
    waiting.start()
    stream.cancel()
    waiting.join(100)
    assert [type(error) for error in raised] == [CancelledError]
    assert not stream.is_active
    assert server.left.wait(100)
    # Once more does no harm, also when the call is gone.
    stream.cancel()
    stream.close()


def test_a_channel_closes_at_once_behind_its_stream(server, channel) -> None:
    stream = open_inline_stream("Talk", channel, PATH, (), exception_of)
    assert stream is not None
    exchanged(stream, b"a")
    stream.close()
    assert stream not in inline_stream._OPEN
    closing = threading.Thread(target=channel.close, daemon=True)
    closing.start()
    closing.join(100)
    assert not closing.is_alive()
    assert server.left.wait(100)


def test_open_streams_are_closed_at_exit(server, channel, stream) -> None:
    assert exchanged(stream, b"a") == b"a"
    assert stream in inline_stream._OPEN
    inline_stream._close_open_streams()
    assert not stream.is_active
    assert server.left.wait(100)


@pytest.mark.usefixtures("ctrl_c_raises")
def test_ctrl_c_ends_a_stream_that_is_waited_for(server, stream) -> None:
    assert exchanged(stream, b"a") == b"a"
    stream.send(b"wait")
    press_in("_next", _thread.interrupt_main)
    with pytest.raises(KeyboardInterrupt):
        stream.receive()
    assert not stream.is_active
    stream.close()
    assert server.left.wait(100)


@pytest.mark.usefixtures("ctrl_c_raises")
@pytest.mark.parametrize("step", ["operate", "next_event"])
def test_ctrl_c_ends_no_step_of_grpc_halfway(server, stream, step) -> None:
    class Interrupted:
        """A call in one of whose steps, where grpc holds a lock, Ctrl-C is pressed."""

        def __init__(self, call: Any) -> None:
            self.steps: list[str] = []
            self.operate, self.next_event, self.cancel = call.operate, call.next_event, call.cancel
            self._step = getattr(call, step)
            setattr(self, step, self._interrupted)

        def _interrupted(self, *arguments: Any) -> Any:
            if not self.steps:
                signal.raise_signal(signal.SIGINT)
            self.steps.append(step)
            return self._step(*arguments)

    assert exchanged(stream, b"a") == b"a"
    stream._call = call = Interrupted(stream._call)
    with pytest.raises(KeyboardInterrupt):
        exchanged(stream, b"b")
    assert call.steps
    assert not stream.is_active
    stream.close()
    assert server.left.wait(100)


def test_no_thread_waits_for_an_event_that_ctrl_c_has_lost(server, stream) -> None:
    class Interrupted:
        """A call whose next event is lost: Ctrl-C comes between."""

        def __init__(self, call: Any) -> None:
            self.operate, self.cancel, self._call = call.operate, call.cancel, call

        def next_event(self) -> None:
            self._call.next_event()
            raise KeyboardInterrupt

    assert exchanged(stream, b"a") == b"a"
    stream.send(b"b")
    stream._call = Interrupted(stream._call)
    with pytest.raises(KeyboardInterrupt):
        stream.receive()
    assert not stream.is_active
    closing = threading.Thread(target=stream.close, daemon=True)
    closing.start()
    closing.join(100)
    assert not closing.is_alive()
    assert server.left.wait(100)


def test_there_is_none_where_grpc_is_another() -> None:
    class Channel:
        def stream_stream(self, path: str) -> object:
            return object()

    other: Any = Channel()
    assert open_inline_stream("Talk", other, PATH, (), exception_of) is None


def test_grpcs_own_stream_waits_for_capacity_and_drops_what_waits_at_its_end() -> None:
    class Call:
        def add_callback(self, callback: Any) -> bool:
            return True

        def cancel(self) -> None:
            pass

        def code(self) -> grpc.StatusCode:
            return grpc.StatusCode.OK

    outgoing: list[Any] = []

    def begin(requests: Any) -> Any:
        outgoing.append(requests)
        return Call()

    stream = ClientStream("Talk", begin, bytes, exception_of)
    (requests,) = outgoing
    sent = [bytes([number]) for number in range(6)]
    sending = threading.Thread(target=lambda: [stream.send(each) for each in sent])
    sending.start()
    # Four wait for the transport, the others for capacity.
    assert waits(sending)
    assert [next(requests) for _ in range(2)] == sent[:2]
    sending.join(100)
    assert not sending.is_alive()
    stream.half_close()
    assert list(requests) == sent[2:]
    with pytest.raises(CancelledError):
        stream.send(b"late")
    ended = ClientStream("Talk", begin, bytes, exception_of)
    ended.send(b"dropped")
    ended.cancel()
    assert list(outgoing[1]) == []
