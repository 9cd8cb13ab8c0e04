import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from tests.fault.plain import until
from xla_contract.errors import ResourceExhaustedError, UnauthenticatedError
from xla_server.identity.identity import Identity
from xla_server.rpc.errors import status_of
from xla_server.rpc.grpc_internals import EndableCalls
from xla_server.rpc.limits.call_admission import CallAdmission
from xla_server.rpc.limits.concurrency_limit import CALL_LIMITS, ConcurrencyLimits
from xla_server.rpc.peers.gate import Gate
from xla_server.rpc.threads import request_threads
from xla_server.rpc.threads.request_threads import RequestThreadPool
from xla_server.rpc.threads.thread_pool import Task, ThreadPool


class Service:
    """A server of one thread, and a channel to it."""

    def __init__(self, threads: ThreadPool, limits: ConcurrencyLimits = CALL_LIMITS) -> None:
        self.threads = threads
        self.counted: list[bytes] = []
        self._server = grpc.server(ThreadPoolExecutor(1), maximum_concurrent_rpcs=2)
        self.expected = EndableCalls()
        self.admission = CallAdmission(limits)
        self.begun = EndableCalls()
        self.may_end = threading.Event()
        pool = RequestThreadPool(threads, self.expected, self.admission, begun=self.begun)
        streamed = RequestThreadPool(threads, self.expected, self.admission, is_streamed=True)
        rows = {
            "Echo": grpc.unary_unary_rpc_method_handler(_in(pool, lambda request, _: request)),
            "Abort": grpc.unary_unary_rpc_method_handler(_in(pool, _abort)),
            "Hold": grpc.unary_unary_rpc_method_handler(_in(pool, self._hold)),
            "Count": grpc.unary_unary_rpc_method_handler(_in(pool, self._count)),
            "CountLater": grpc.unary_stream_rpc_method_handler(_in(pool, self._count)),
            "Code": grpc.unary_unary_rpc_method_handler(_in(pool, _set_code)),
            "Fail": grpc.unary_unary_rpc_method_handler(_in(pool, _fail)),
            "Later": grpc.unary_stream_rpc_method_handler(_in(pool, _Later(pool))),
            "Each": grpc.unary_stream_rpc_method_handler(_in(pool, lambda *_: iter((b"1", b"2")))),
            "Streamed": grpc.stream_stream_rpc_method_handler(_in(streamed, _all)),
            "Parsed": grpc.unary_unary_rpc_method_handler(
                _in(pool, lambda request, _: request), request_deserializer=bytes
            ),
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

    def begin_expected(self, requests: Iterator[bytes], name: str = "Echo") -> tuple[Any, Any]:
        """A call that has begun, and what the server's grpc knows of it."""
        before = set(self.expected.events)
        call = self.channel.stream_unary(f"/s/{name}").future(requests, timeout=20)
        until(lambda: set(self.expected.events) - before != set())
        (state,) = set(self.expected.events) - before
        return call, state

    def wait_until_forgotten(self) -> None:
        """Wait until grpc's server knows of no call."""
        until(lambda: not self._server._state.rpc_states)

    def _hold(self, request: bytes, _: object) -> bytes:
        self.may_end.wait(100)
        if request == b"fail":
            raise ValueError("too late")
        return request

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


def _all(requests: Iterator[bytes], _: object) -> Iterator[bytes]:
    yield b"".join(requests)


class _Later:
    def __init__(self, pool: RequestThreadPool) -> None:
        self._pool = pool

    def __call__(self, request: bytes, context: Any, send: Callable[[bytes | None], None]) -> None:
        def answer() -> None:
            self._pool.leave(context)
            send(request)
            send(None)

        threading.Thread(target=answer).start()


@pytest.fixture(params=["known", "unknown"])
def service(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """With grpc as it is known, and as if it were another."""
    if request.param == "unknown":
        monkeypatch.setattr(request_threads, "known_server", lambda: None)
    service = Service(ThreadPool(1, "test"))
    yield service
    service.close()


@pytest.fixture
def single() -> Iterator[Service]:
    """A service with one slot, and none beyond."""
    service = Service(ThreadPool(1, "test"), ConcurrencyLimits(limit=2, each=1, reserve=0))
    yield service
    service.close()


@pytest.fixture
def known() -> Iterator[Service]:
    service = Service(ThreadPool(1, "test"))
    yield service
    service.close()


def _silence(gate: threading.Event) -> Iterator[bytes]:
    gate.wait(100)
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
def test_the_failure_of_a_behaviour_is_reported_as_by_grpc(service, name, code, details):
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
        assert ended.wait(100)
        # The server notices it a little later.
        while (code := service.outcome("Echo")) is grpc.StatusCode.RESOURCE_EXHAUSTED:
            pass
        assert code is grpc.StatusCode.OK
    gate.set()


@pytest.mark.parametrize("name", ["Count", "CountLater"])
def test_calls_can_be_refused_before_their_request_is_there(known, name, monkeypatch):
    told_twice: list[Any] = []
    monkeypatch.setattr(
        request_threads, "reject_call", lambda *arguments: told_twice.append(arguments)
    )
    status = status_of(ResourceExhaustedError("the reason", hint="Do other things."))
    gates = [threading.Event() for _ in range(6)]
    for gate in gates:  # Of two at a time.
        refused, state = known.begin_expected(_silence(gate), name)
        assert known.expected.end(state, status)
        assert not known.expected.end(state, status)
        assert refused.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert refused.details() == "the reason"
        (detail,) = refused.trailing_metadata()
        assert detail.key == "grpc-status-details-bin"
        assert b"Do other things." in detail.value
        known.wait_until_forgotten()
        gate.set()
    assert not told_twice
    assert known.call("Echo") == b"request"
    assert known.counted == []


def test_only_calls_whose_request_is_not_there_are_expected(service):
    gate = threading.Event()
    assert service.call("Echo") == b"request"
    for name in ("Abort", "Fail"):
        service.outcome(name)
    assert service.begin(iter(())).code() is grpc.StatusCode.UNIMPLEMENTED
    given_up = service.begin(_silence(gate))
    given_up.cancel()
    gate.set()
    service.wait_until_forgotten()
    assert not service.expected.events


def test_a_request_that_comes_in_the_same_moment_is_answered_or_refused(known):
    status = status_of(ResourceExhaustedError("the reason"))
    answered = 0
    for _ in range(40):
        gate = threading.Event()
        call, state = known.begin_expected(_silence(gate), "Count")
        gate.set()
        is_refused = known.expected.end(state, status)
        if not is_refused:
            answered += 1
            assert call.result() == b""
        else:
            assert call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        known.wait_until_forgotten()
    assert len(known.counted) == answered


@pytest.mark.parametrize("make", ["unary_unary", "unary_stream"])
def test_calls_given_up_in_line_are_not_made(service, make):
    gate, begun = threading.Event(), threading.Event()
    service.threads.submit(lambda: (begun.set(), gate.wait(100)))
    assert begun.wait(100)
    if make == "unary_unary":
        call = service.channel.unary_unary("/s/Count").future(b"1")
    else:
        call = service.channel.unary_stream("/s/CountLater")(b"1")
    until(lambda: service.threads.waiting != 0)
    assert service.threads.waiting == 1
    call.cancel()
    service.wait_until_forgotten()
    gate.set()
    assert service.call("Echo") == b"request"
    assert service.counted == []


@pytest.mark.parametrize("name", ["Echo", "Abort", "Fail", "Later", "Each", "Streamed"])
def test_who_has_an_answer_may_call_again(single, name):
    streams = name in {"Later", "Each", "Streamed"}
    for _ in range(30):
        if streams:
            list(single.channel.stream_stream(f"/s/{name}")(iter((b"request",)), timeout=20))
            # A stream leaves its slot with the last message, or before.
            if name != "Later":
                until(lambda: single.admission.shares.used == 0)
        else:
            assert single.outcome(name) is not grpc.StatusCode.RESOURCE_EXHAUSTED
    single.wait_until_forgotten()
    assert single.admission.shares.used == 0
    # The end of a job is reported to grpc when its thread comes to that, behind the answer.
    until(lambda: single._server._state.active_rpc_count == 0)


@pytest.mark.parametrize("name", ["Echo", "Abort", "Fail", "Later"])
def test_slots_are_left_before_the_answer_however_late_a_thread_is_over(single, name, monkeypatch):
    end, answered = Task.end, threading.Semaphore(0)

    def late(job: Task) -> None:
        # grpc, which may add its callback behind the end, does not wait.
        if threading.current_thread() in single.threads._started:
            assert answered.acquire(timeout=100)
        end(job)

    monkeypatch.setattr(Task, "end", late)
    for _ in range(3):
        assert single.outcome(name) is not grpc.StatusCode.RESOURCE_EXHAUSTED
        assert single.admission.shares.used == 0
        answered.release()


def test_a_stream_of_no_session_takes_a_thread_when_its_first_message_comes() -> None:
    service = Service(ThreadPool(1, "stream"))
    call = service.channel.stream_stream("/s/Streamed")
    messages: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    silent = call(iter(messages.get, None), timeout=20)
    until(lambda: len(service.expected.events) == 1)
    # The only thread is free.
    assert service.call("Echo", b"other") == b"other"
    for message in (b"1", b"2", b"3", None):
        messages.put(message)
    assert list(silent) == [b"123"]
    # One without messages is detected by its behaviour.
    assert list(call(iter(()), timeout=20)) == [b""]
    # One that is given up has had no thread.
    given_up = call(iter(messages.get, None), timeout=20)
    until(lambda: len(service.expected.events) == 1)
    given_up.cancel()
    until(lambda: not service.expected.events and not service.admission.shares.used)
    messages.put(None)
    service.close()


def test_a_stream_of_a_session_takes_a_thread_at_once() -> None:
    service = Service(ThreadPool(1, "stream"))
    messages: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    metadata = (("xla-session", "token"),)
    call = service.channel.stream_stream("/s/Streamed")
    answers = call(iter(messages.get, None), timeout=20, metadata=metadata)
    until(lambda: not service.threads.is_idle())
    assert not service.expected.events
    messages.put(None)
    assert list(answers) == [b""]
    service.close()


@pytest.mark.parametrize("name", ["Echo", "Later", "Streamed", "Parsed"])
def test_calls_beyond_their_slots_are_refused_at_once(single, name):
    gate = threading.Event()
    for _ in range(3):
        waiting = single.channel.stream_stream(f"/s/{name}")(_silence(gate), timeout=20)
        until(lambda: single.admission.shares.used > 0)
        refused = [
            single.channel.stream_stream(f"/s/{other}")(_silence(gate), timeout=20)
            for other in ("Echo", "Later", "Streamed", "Parsed", "Each")
        ]
        for call in refused:
            assert call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert ": a session may have 1 calls at the same time" in call.details()
        assert single.admission.shares.used == 1
        waiting.cancel()
        single.wait_until_forgotten()
        # A thread that reads a stream leaves the slot when it has seen the end.
        until(lambda: single.admission.shares.used == 0)
    gate.set()


def test_queued_calls_have_slots_until_their_turn(single):
    gate, begun = threading.Event(), threading.Event()
    single.threads.submit(lambda: (begun.set(), gate.wait(100)))
    assert begun.wait(100)
    call = single.channel.unary_unary("/s/Count").future(b"1")
    until(lambda: single.threads.waiting != 0)
    call.cancel()
    single.wait_until_forgotten()
    # It is in line still, and its request in memory.
    assert single.outcome("Echo") is grpc.StatusCode.RESOURCE_EXHAUSTED
    gate.set()
    until(lambda: single.admission.shares.used == 0)
    assert single.outcome("Echo") is grpc.StatusCode.OK
    assert single.counted == []


def test_calls_without_a_request_or_a_server_leave_their_slots(single):
    for _ in range(3):
        assert single.begin(iter(())).code() is grpc.StatusCode.UNIMPLEMENTED
        single.wait_until_forgotten()
    single.threads.shutdown()
    for _ in range(3):
        with pytest.raises(grpc.RpcError) as raised:
            single.call("Echo", timeout=0.1)
        assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert single.admission.shares.used == 0


def test_calls_that_come_after_the_threads_were_closed_end_no_thread_of_grpcs(known):
    assert known.call("Echo") == b"request"
    known.threads.shutdown()
    for _ in range(6):
        with pytest.raises(grpc.RpcError) as raised:
            known.call("Echo", timeout=0.1)
        assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


class _Strict(Gate):
    """A gate that refuses every call and records its path."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: list[str] = []

    def admit(self, context: grpc.ServicerContext, path: str) -> Identity:
        self.paths.append(path)
        raise UnauthenticatedError("a call must carry credentials, got none")


def test_a_call_that_the_gate_refuses_takes_no_slot_and_is_not_read() -> None:
    threads, expected, places, gate = (
        ThreadPool(1, "t"),
        EndableCalls(),
        CallAdmission(),
        _Strict(),
    )
    never = threading.Event()
    served: list[bytes] = []

    def serve(request: bytes, _: grpc.ServicerContext) -> bytes:
        served.append(request)
        return b""

    def requests() -> Iterator[bytes]:
        never.wait()
        yield b""

    server = grpc.server(ThreadPoolExecutor(1))
    handler = grpc.unary_unary_rpc_method_handler(
        _in(RequestThreadPool(threads, expected, places, gate=gate), serve)
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("s", {"Echo": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        # The request never comes; the answer does.
        call = channel.stream_unary("/s/Echo").future(requests(), timeout=60)
        assert call.code() is grpc.StatusCode.UNAUTHENTICATED
        assert call.details() == "Echo: a call must carry credentials, got none"
        never.set()
    assert gate.paths == ["/s/Echo"]
    assert (served, expected.events, places.shares.used) == ([], {}, 0)
    server.stop(None).wait()
    threads.shutdown()


@pytest.mark.parametrize("request_", [b"answer", b"fail"])
def test_a_call_whose_thread_is_busy_may_be_answered_by_another_once(single, request_):
    status = status_of(ResourceExhaustedError("enough"))
    call = single.channel.unary_unary("/s/Hold").future(request_, timeout=20)
    until(lambda: len(single.begun.events) == 1)
    (state,) = single.begun.events
    assert single.begun.end(state, status)
    assert (call.code(), call.details()) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "enough")
    assert not single.begun.end(state, status)
    single.may_end.set()
    single.wait_until_forgotten()
    until(lambda: single.admission.shares.used == 0)
    assert single.call("Hold") == b"request"
    assert single.begun.events == {}
