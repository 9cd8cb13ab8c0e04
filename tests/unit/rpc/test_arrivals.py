import importlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from xla_server.rpc import arrivals
from xla_server.rpc.arrivals import Arrivals, known_server
from xla_server.rpc.threads import Threads


class Service:
    """A server of one thread, and a channel to it."""

    def __init__(self, threads: Threads) -> None:
        self.threads = threads
        self.counted: list[bytes] = []
        self._server = grpc.server(ThreadPoolExecutor(1), maximum_concurrent_rpcs=2)
        pool = Arrivals(threads)
        rows = {
            "Echo": grpc.unary_unary_rpc_method_handler(_in(pool, lambda request, _: request)),
            "Abort": grpc.unary_unary_rpc_method_handler(_in(pool, _abort)),
            "Count": grpc.unary_unary_rpc_method_handler(_in(pool, self._count)),
            "CountLater": grpc.unary_stream_rpc_method_handler(_in(pool, self._count)),
            "Code": grpc.unary_unary_rpc_method_handler(_in(pool, _set_code)),
            "Fail": grpc.unary_unary_rpc_method_handler(_in(pool, _fail)),
            "Later": grpc.unary_stream_rpc_method_handler(_in(pool, _Later())),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("s", rows),))
        port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")

    def call(self, name: str, request: bytes = b"request", timeout: float = 20) -> bytes:
        answer: bytes = self.channel.unary_unary(f"/s/{name}")(request, timeout=timeout)
        return answer

    def outcome(self, name: str) -> grpc.StatusCode:
        future = self.channel.unary_unary(f"/s/{name}").future(b"request", timeout=20)
        code: grpc.StatusCode = future.code()
        return code

    def begin(self, requests: Iterator[bytes]) -> Any:
        """A call whose headers go at once, and its messages as they come."""
        return self.channel.stream_unary("/s/Echo").future(requests, timeout=20)

    def wait_until_forgotten(self) -> None:
        """Wait until grpc's server knows of no call."""
        until = time.monotonic() + 20
        while self._server._state.rpc_states and time.monotonic() < until:
            time.sleep(0.01)
        assert not self._server._state.rpc_states

    def _count(self, request: bytes, _: object) -> bytes:
        self.counted.append(request)
        return b""

    def close(self) -> None:
        self.channel.close()
        self._server.stop(None)
        self.threads.shutdown()


def _in(pool: ThreadPoolExecutor, behavior: Any) -> Any:
    class Behavior:
        experimental_thread_pool = pool
        experimental_non_blocking = isinstance(behavior, _Later)

        def __call__(self, *arguments: Any) -> Any:
            return behavior(*arguments)

    return Behavior()


def _abort(_: bytes, context: grpc.ServicerContext) -> bytes:
    context.abort(grpc.StatusCode.DATA_LOSS, "the reason")


def _set_code(_: bytes, context: grpc.ServicerContext) -> bytes:
    context.set_code(grpc.StatusCode.NOT_FOUND)
    context.set_details("there is none")
    return b""


def _fail(*_: object) -> bytes:
    raise ZeroDivisionError("the cause")


class _Later:
    def __call__(self, request: bytes, _: object, send: Callable[[bytes | None], None]) -> None:
        threading.Thread(target=lambda: (send(request), send(None))).start()


@pytest.fixture(params=["known", "unknown"])
def service(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """With grpc as it is known, and as if it were another."""
    if request.param == "unknown":
        monkeypatch.setattr(arrivals, "known_server", lambda: None)
    service = Service(Threads(1, "test"))
    yield service
    service.close()


@pytest.fixture
def known() -> Iterator[Service]:
    service = Service(Threads(1, "test"))
    yield service
    service.close()


def _silence(gate: threading.Event) -> Iterator[bytes]:
    gate.wait(20)
    yield b"late"


def test_calls_are_answered_one_after_the_other(service):
    assert [service.call("Echo", bytes([n])) for n in range(50)] == [bytes([n]) for n in range(50)]
    assert service.call("Echo", b"") == b""
    assert list(service.channel.unary_stream("/s/Later")(b"later", timeout=20)) == [b"later"]


@pytest.mark.parametrize(
    ("name", "code", "details"),
    [
        ("Abort", grpc.StatusCode.DATA_LOSS, "the reason"),
        ("Code", grpc.StatusCode.NOT_FOUND, "there is none"),
        ("Fail", grpc.StatusCode.UNKNOWN, "Exception calling application: the cause"),
    ],
)
def test_how_a_behaviour_fails_is_told_as_grpc_tells_it(service, name, code, details):
    for _ in range(3):
        with pytest.raises(grpc.RpcError) as raised:
            service.call(name)
        assert raised.value.code() is code
        assert raised.value.details() == details
    assert service.call("Echo") == b"request"


def test_a_call_without_a_request_is_refused_as_grpc_does(service):
    for _ in range(3):
        with pytest.raises(grpc.RpcError) as raised:
            service.begin(iter(())).result()
        assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert raised.value.details() == "\"b'/s/Echo'\" requires exactly one request message."
    assert service.call("Echo") == b"request"


def test_a_call_that_waits_for_its_request_holds_no_thread(known):
    gate = threading.Event()
    slow = known.begin(_silence(gate))
    for _ in range(5):
        assert known.call("Echo") == b"request"
    gate.set()
    assert slow.result() == b"late"


def test_calls_given_up_before_their_request_count_no_more(service):
    gate = threading.Event()
    for _ in range(6):  # Of two at a time.
        given_up = service.begin(_silence(gate))
        given_up.cancel()
        ended = threading.Event()
        given_up.add_done_callback(lambda _, ended=ended: ended.set())
        assert ended.wait(20)
        # The server hears of it a little later.
        while (code := service.outcome("Echo")) is grpc.StatusCode.RESOURCE_EXHAUSTED:
            pass
        assert code is grpc.StatusCode.OK
    gate.set()


@pytest.mark.parametrize("make", ["unary_unary", "unary_stream"])
def test_calls_given_up_in_line_are_not_made(service, make):
    gate, begun = threading.Event(), threading.Event()
    service.threads.submit(lambda: (begun.set(), gate.wait(20)))
    assert begun.wait(20)
    if make == "unary_unary":
        call = service.channel.unary_unary("/s/Count").future(b"1")
    else:
        call = service.channel.unary_stream("/s/CountLater")(b"1")
    until = time.monotonic() + 20
    while service.threads._spare == 0 and time.monotonic() < until:
        time.sleep(0.01)
    assert service.threads._spare == -1
    call.cancel()
    service.wait_until_forgotten()
    gate.set()
    assert service.call("Echo") == b"request"
    assert service.counted == []


def test_calls_that_come_after_the_threads_were_closed_end_no_thread_of_grpcs(known):
    assert known.call("Echo") == b"request"
    known.threads.shutdown()
    for _ in range(6):
        with pytest.raises(grpc.RpcError) as raised:
            known.call("Echo", timeout=0.1)
        assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def test_another_grpc_is_known_as_such(monkeypatch):
    server = importlib.import_module("grpc._server")
    assert known_server() is server
    with monkeypatch.context() as patch:
        patch.setattr(server, "_abort", lambda state, call, code: None)
        assert known_server() is None
    with monkeypatch.context() as patch:
        patch.delattr(server, "_RECEIVE_MESSAGE_TOKEN")
        assert known_server() is None
    observability = importlib.import_module("grpc._observability")
    with monkeypatch.context() as patch:
        patch.setattr(observability, "_OBSERVABILITY_PLUGIN", object())
        assert known_server() is None
    assert known_server() is server
