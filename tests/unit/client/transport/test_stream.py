"""The messages of one streaming call, over a call that does what the test says."""

import queue
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from tests.fault.plain import until
from tests.unit.client.ctrl_c import press_in
from xla_client.transport.stream import _WAITING, ClientStream
from xla_contract.errors import AbortedError, CancelledError, XlaError


class _Ended(grpc.RpcError):
    def __init__(self, code: grpc.StatusCode) -> None:
        self._code = code

    def code(self) -> grpc.StatusCode:
        return self._code


class Call(_Ended):
    """A stream of grpc's that takes messages on request."""

    def __init__(self, requests: Iterator[bytes], *, has_ended: bool = False) -> None:
        super().__init__(grpc.StatusCode.OK)
        self.requests = requests
        self.responses: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.callbacks: list[Callable[[], None]] = []
        self.has_ended = has_ended

    def add_callback(self, callback: Callable[[], None]) -> bool:
        self.callbacks.append(callback)
        return not self.has_ended

    def is_active(self) -> bool:
        return not self.has_ended

    def end(self, code: grpc.StatusCode) -> None:
        self._code = code
        self.has_ended = True
        for callback in self.callbacks:
            callback()

    def cancel(self) -> None:
        self.end(grpc.StatusCode.CANCELLED)

    def __next__(self) -> Any:
        response = self.responses.get(timeout=10)
        if callable(response):
            response = response()
        if isinstance(response, BaseException):
            raise response
        return response


def as_exception(name: str, error: grpc.RpcError) -> XlaError:
    kind = CancelledError if error.code() is grpc.StatusCode.CANCELLED else AbortedError
    return kind(f"{name}: {error.code().name}")


def begun(*, has_ended: bool = False) -> tuple[ClientStream, Call]:
    calls: list[Call] = []

    def begin(requests: Iterator[bytes]) -> Call:
        calls.append(Call(requests, has_ended=has_ended))
        return calls[0]

    return ClientStream("Converse", begin, str.encode, as_exception), calls[0]


def in_thread(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    return thread


def test_messages_go_in_their_order_and_end_behind_the_last() -> None:
    stream, call = begun()
    stream.send("one")
    stream.send(b"two")
    stream.half_close()
    assert list(call.requests) == [b"one", b"two"]
    with pytest.raises(CancelledError, match="the call must go on"):
        stream.send("three")


def test_a_sender_waits_for_capacity() -> None:
    stream, call = begun()
    count, sent = 5 * _WAITING, list[int]()

    def send_all(first: int) -> None:
        for number in range(first, count, 2):
            stream.send(bytes([number]))
            sent.append(number)

    senders = [in_thread(lambda first=first: send_all(first)) for first in range(2)]
    until(lambda: len(sent) == _WAITING)
    received = [next(call.requests)[0] for _ in range(count)]
    for sender in senders:
        sender.join(100)
        assert not sender.is_alive()
    assert sorted(received) == list(range(count))
    # Of each sender in its order.
    for first in range(2):
        own = [number for number in received if number % 2 == first]
        assert own == sorted(own)


@pytest.mark.parametrize("how", ["end", "cancel", "half_close"])
def test_the_end_wakes_senders_that_wait(how: str) -> None:
    stream, call = begun()
    errors: list[XlaError] = []

    def send_all() -> None:
        try:
            for _ in range(2 * _WAITING):
                stream.send("one more")
        except XlaError as error:
            errors.append(error)

    senders = [in_thread(send_all) for _ in range(3)]
    until(lambda: stream._outgoing._messages.qsize() == _WAITING)
    if how == "end":
        call.end(grpc.StatusCode.ABORTED)
    else:
        getattr(stream, how)()
    for sender in senders:
        sender.join(100)
        assert not sender.is_alive()
    expected = AbortedError if how == "end" else CancelledError
    assert [type(error) for error in errors] == [expected] * 3
    if how != "half_close":  # What waited is dropped.
        assert list(call.requests) == []


@pytest.mark.parametrize("how", ["end", "cancel", "half_close"])
def test_the_end_wakes_receivers(how: str) -> None:
    stream, call = begun()
    taker = in_thread(lambda: list(call.requests))
    if how == "end":
        call.end(grpc.StatusCode.ABORTED)
    else:
        getattr(stream, how)()
    taker.join(100)
    assert not taker.is_alive()


def test_a_call_that_has_ended_before_it_is_heard_of_takes_nothing() -> None:
    stream, call = begun(has_ended=True)
    assert not stream.is_active
    assert list(call.requests) == []
    with pytest.raises(CancelledError):
        stream.send("one")


def test_what_is_received_and_how_it_ends() -> None:
    stream, call = begun()
    for response in (b"one", StopIteration()):
        call.responses.put(response)
    assert stream.is_active
    assert stream.receive() == b"one"
    assert stream.receive() is None
    call.responses.put(_Ended(grpc.StatusCode.ABORTED))
    with pytest.raises(AbortedError, match="Converse: ABORTED"):
        stream.receive()


@pytest.mark.usefixtures("ctrl_c_raises")
def test_ctrl_c_ends_a_call_and_not_a_step_of_grpc_halfway() -> None:
    stream, call = begun()
    steps = []

    def step() -> str:
        signal.raise_signal(signal.SIGINT)
        until(lambda: call.has_ended)
        steps.append("whole")
        return "message"

    call.responses.put(step)
    with pytest.raises(KeyboardInterrupt):
        stream.receive()
    assert steps == ["whole"]
    assert call.code() is grpc.StatusCode.CANCELLED


@pytest.mark.usefixtures("ctrl_c_raises")
def test_ctrl_c_leaves_no_call_that_has_just_begun() -> None:
    calls: list[Call] = []

    def begin(requests: Iterator[bytes]) -> Call:
        signal.raise_signal(signal.SIGINT)
        calls.append(Call(requests))
        return calls[0]

    with pytest.raises(KeyboardInterrupt):
        ClientStream("Converse", begin, str.encode, as_exception)
    assert calls[0].has_ended


@pytest.mark.usefixtures("ctrl_c_raises")
def test_ctrl_c_wakes_senders_that_wait() -> None:
    stream, call = begun()
    for _ in range(_WAITING):
        stream.send("message")
    main = threading.get_ident()
    press_in("_wait_for_capacity", lambda: signal.pthread_kill(main, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        stream.send("one more")
    assert call.has_ended
