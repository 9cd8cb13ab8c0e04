"""Calls that end from another thread, over a real channel."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from grpc_status import rpc_status

from xla_contract.errors import AbortedError
from xla_server.rpc.calls import completion
from xla_server.rpc.calls.completion import SendResponse, answer_call, end_call
from xla_server.rpc.errors import status_of

PATH = "/test.Test/Call"
End = Callable[[grpc.ServicerContext, SendResponse], None]


class _Call:
    """Returns at once, and ends in a thread of its own."""

    experimental_non_blocking = True

    def __init__(self, end: End) -> None:
        self._end = end
        self.has_returned = threading.Event()

    def __call__(
        self, request: bytes, context: grpc.ServicerContext, send_response_callback: SendResponse
    ) -> None:
        def end() -> None:
            assert self.has_returned.wait(100)
            self._end(context, send_response_callback)

        threading.Thread(target=end, daemon=True).start()
        self.has_returned.set()


@contextlib.contextmanager
def serving(end: End) -> Iterator[grpc.Channel]:
    handler: Any = grpc.unary_stream_rpc_method_handler(_Call(end))
    generic = grpc.method_handlers_generic_handler("test.Test", {"Call": handler})
    with ThreadPoolExecutor(1) as threads:
        server = grpc.server(threads, handlers=[generic])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
        server.stop(None).wait()


def unary(channel: grpc.Channel) -> bytes:
    answer: bytes = channel.unary_unary(PATH)(b"", timeout=10)
    return answer


@pytest.mark.parametrize("has_last", [True, False])
@pytest.mark.parametrize("message", [b"", b"one", bytes(1 << 20)])
def test_an_answer_is_the_one_message(
    message: bytes, has_last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what grpc ends its own unary calls with, and where it has that no more."""
    if not has_last:
        monkeypatch.setattr(completion, "_SEND_LAST", None)
    assert has_last is (completion._SEND_LAST is not None)
    with serving(lambda context, send: answer_call(context, send, message)) as channel:
        assert unary(channel) == message
        assert list(channel.unary_stream(PATH)(b"", timeout=10)) == [message]


def test_a_call_ends_well_behind_its_messages() -> None:
    def end(context: grpc.ServicerContext, send: SendResponse) -> None:
        for number in range(3):
            send(bytes([number]))
        end_call(context, send, None)

    with serving(end) as channel:
        call = channel.unary_stream(PATH)(b"", timeout=10)
        assert list(call) == [b"\0", b"\1", b"\2"]
        assert call.code() is grpc.StatusCode.OK


def test_an_error_is_reported_with_its_details() -> None:
    reported = status_of(AbortedError("another came", op="converse", hint="try again"))
    with serving(lambda context, send: end_call(context, send, reported)) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            unary(channel)
        error: Any = caught.value
        assert (error.code(), error.details()) == (grpc.StatusCode.ABORTED, reported.details)
        status = rpc_status.from_call(error)
        assert status is not None
        assert len(status.details) == 1


def test_messages_before_an_error_arrive() -> None:
    def end(context: grpc.ServicerContext, send: SendResponse) -> None:
        send(b"one")
        end_call(context, send, status_of(AbortedError("no more")))

    with serving(end) as channel:
        call = channel.unary_stream(PATH)(b"", timeout=10)
        assert next(call) == b"one"
        with pytest.raises(grpc.RpcError):
            next(call)
        assert call.code() is grpc.StatusCode.ABORTED
