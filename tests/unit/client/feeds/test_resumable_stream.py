"""A stream that outlives its connections, against a server that does what the test says."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from tests.fault.plain import until
from xla_client.feeds import resumable_stream
from xla_client.feeds.resumable_stream import ResumableStream
from xla_client.session.session import Session
from xla_client.transport.transport import Transport
from xla_contract.errors import (
    CancelledError,
    DataLossError,
    DeadlineExceededError,
    InvalidArgumentError,
    UnavailableError,
)
from xla_contract.stubs import xla_extension_pb2 as extension_pb2

Script = Callable[[Iterator[Any], grpc.ServicerContext], Iterator[int]]
"""Serves one connection: gives the numbers of what it answers."""


class Server:
    """Serves the Outfeed rpc, one connection after the other by the next script."""

    def __init__(self) -> None:
        self.scripts: list[Script] = []
        self.received: list[int] = []
        self.has_left = threading.Event()
        self._threads = ThreadPoolExecutor(4)
        handler = grpc.stream_stream_rpc_method_handler(
            self._serve,
            request_deserializer=extension_pb2.OutfeedRequest.FromString,
            response_serializer=extension_pb2.OutfeedResponse.SerializeToString,
        )
        service = grpc.method_handlers_generic_handler(
            "xla.XlaExtensionService", {"Outfeed": handler}
        )
        self._server = grpc.server(self._threads, handlers=[service])
        self.target = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def _serve(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        context.add_callback(self.has_left.set)
        for number in self.scripts.pop(0)(self._numbers(requests), context):
            yield answer(number)

    def _numbers(self, requests: Iterator[Any]) -> Iterator[int]:
        for request in requests:
            number = request.progress.acknowledged
            self.received.append(number)
            yield number

    def close(self) -> None:
        self._server.stop(None).wait()
        self._threads.shutdown()


def answer(number: int) -> Any:
    return extension_pb2.OutfeedResponse(started=extension_pb2.OutfeedStarted(next_sequence=number))


def request(number: int) -> Any:
    return extension_pb2.OutfeedRequest(progress=extension_pb2.OutfeedProgress(acknowledged=number))


class Link(ResumableStream):
    """Begins each connection with its number, and sends what is put into `outgoing`."""

    def __init__(self, session: Session) -> None:
        super().__init__(session, "Outfeed")
        self.connections = 0
        self.outgoing: list[int] = []
        self.answers: list[int] = []
        self.refuses: int | None = None
        self.due: float | None = None

    def start_request(self) -> Any:
        self.connections += 1
        return request(1000 * self.connections)

    def receive_response(self, response: Any) -> None:
        number = response.started.next_sequence
        if number == self.refuses:
            raise DataLossError(f"{number} must not be")
        self.answers.append(number)

    def next_message(self) -> Any:
        if self.due is not None and time.monotonic() < self.due:
            self.wake_at = self.due
            return None
        return request(self.outgoing.pop(0)) if self.outgoing else None

    def put(self, *numbers: int) -> None:
        with self.changes:
            self.outgoing += numbers
            self.changes.notify()

    def wait(self) -> None:
        """Wait until it is over, and its threads with it."""
        until(lambda: self.is_over)
        for thread in self._threads:
            thread.join(100)
            assert not thread.is_alive()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def link(server: Server) -> Iterator[Link]:
    transport = Transport(server.target, credentials=None, metadata=(), timeout=None)
    session = Session(transport, shared_memory=False)
    made = Link(session)
    yield made
    made.abandon()
    session.close()


def echo(requests: Iterator[int], context: grpc.ServicerContext) -> Iterator[int]:
    yield from requests


def breaks_after(count: int, code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE) -> Script:
    def serve(requests: Iterator[int], context: grpc.ServicerContext) -> Iterator[int]:
        for _ in range(count):
            yield next(requests)
        context.abort(code, "cut")

    return serve


def test_a_stream_is_begun_used_and_ended_well(server: Server, link: Link) -> None:
    server.scripts = [echo]
    assert not link.is_connected
    link.begin()
    link.put(1, 2, 3)
    until(lambda: link.answers == [1000, 1, 2, 3])
    assert link.is_connected
    with link.changes:
        link.check()
    # Items are sent before the end.
    link.put(4)
    link.close()
    assert server.received == [1000, 1, 2, 3, 4]
    assert link.answers == [1000, 1, 2, 3, 4]
    link.wait()
    assert link.error is None
    with (
        link.changes,
        pytest.raises(
            CancelledError, match=r"^Outfeed: the feed must be open to be used, got a cl"
        ),
    ):
        link.check()
    link.close()


def test_a_lost_connection_is_found_again(
    server: Server, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumable_stream, "FIRST_PAUSE", 0.001)
    server.scripts = [breaks_after(0), breaks_after(1), breaks_after(1), echo]
    link.begin()
    until(lambda: link.connections == 4 and 4000 in link.answers)
    link.put(2)
    until(lambda: link.answers[-1] == 2)
    assert link.answers == [2000, 3000, 4000, 2]
    assert link.error is None
    link.close()


def test_what_another_connection_would_not_mend_ends_it(server: Server, link: Link) -> None:
    server.scripts = [breaks_after(1, grpc.StatusCode.INVALID_ARGUMENT)]
    link.begin()
    link.wait()
    assert link.connections == 1
    with link.changes, pytest.raises(InvalidArgumentError, match="cut"):
        link.check()


def test_a_server_that_does_not_come_back_is_given_up(
    server: Server, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumable_stream, "FIRST_PAUSE", 0.001)
    # Many times what a connection takes.
    monkeypatch.setattr(resumable_stream, "RECONNECT_SECONDS", 1)
    server.scripts = [breaks_after(0)] * 100
    link.begin()
    link.wait()
    # One after the other, with longer and longer pauses.
    assert 2 < link.connections < 15
    with link.changes, pytest.raises(UnavailableError, match="cut"):
        link.check()


def test_a_connection_that_served_has_all_the_time_again(
    server: Server, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumable_stream, "FIRST_PAUSE", 0.03)
    monkeypatch.setattr(resumable_stream, "RECONNECT_SECONDS", 0.02)
    server.scripts = [*[breaks_after(1)] * 4, echo]
    link.begin()
    until(lambda: 5000 in link.answers)
    link.close()


def test_a_client_that_was_closed_does_not_connect_again(server: Server, link: Link) -> None:
    server.scripts = [echo]
    link.begin()
    until(lambda: link.is_connected)
    link.session.close()
    link.wait()
    assert link.connections <= 2
    with link.changes, pytest.raises((CancelledError, UnavailableError)):
        link.check()


def test_abandoning_gives_the_call_up(server: Server, link: Link) -> None:
    server.scripts = [echo]
    link.begin()
    until(lambda: link.is_connected)
    server.has_left.clear()
    link.abandon()
    link.abandon()
    link.wait()
    assert server.has_left.wait(100)
    assert link.error is None


def test_a_link_that_was_abandoned_early_does_not_connect(server: Server, link: Link) -> None:
    link.abandon()
    link.begin()
    link.wait()
    assert link.connections == 0


def test_a_server_that_says_nothing_is_left(server: Server, link: Link) -> None:
    is_over = threading.Event()

    def mute(requests: Iterator[int], context: grpc.ServicerContext) -> Iterator[int]:
        assert next(requests) == 1000
        is_over.wait(100)
        yield from ()

    server.scripts = [mute]
    link.begin()
    until(lambda: server.received == [1000])
    link.abandon()
    link.wait()
    assert server.has_left.wait(100)
    is_over.set()


def test_an_answer_that_cannot_be_taken_ends_it_on_both_sides(server: Server, link: Link) -> None:
    server.scripts = [echo]
    link.refuses = 2
    link.begin()
    link.put(1, 2)
    link.wait()
    with link.changes, pytest.raises(DataLossError, match="2 must not be"):
        link.check()
    # The server ends a stream that is not read.
    assert server.has_left.wait(100)


def test_closing_does_not_wait_for_ever(
    server: Server, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumable_stream, "END_SECONDS", 0.05)
    is_over = threading.Event()

    def deaf(requests: Iterator[int], context: grpc.ServicerContext) -> Iterator[int]:
        yield next(requests)
        is_over.wait()

    server.scripts = [deaf]
    link.begin()
    until(lambda: link.is_connected)
    link.close()
    is_over.set()
    link.wait()


def test_closing_in_a_thread_of_its_own_does_not_wait(
    server: Server, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collection of garbage may run anywhere."""
    monkeypatch.setattr(resumable_stream, "END_SECONDS", 60)  # The stream would wait for this.
    server.scripts = [echo]
    closed = threading.Event()

    def take(response: Any) -> None:
        link.close()
        closed.set()

    link.receive_response = take  # type: ignore[method-assign]
    link.begin()
    assert closed.wait(100)
    link.wait()


def test_a_message_that_is_due_later_is_asked_for_then(server: Server, link: Link) -> None:
    server.scripts = [echo]
    link.begin()
    until(lambda: link.is_connected)
    with link.changes:
        link.due = time.monotonic() + 0.1
        link.outgoing.append(7)
        link.changes.notify()
    assert link.answers == [1000] or time.monotonic() >= link.due
    until(lambda: link.answers == [1000, 7])
    assert time.monotonic() >= link.due
    link.close()


def test_who_waits_too_long_is_notified(link: Link) -> None:
    error = link.late("a value must come", 0.5)
    assert type(error) is DeadlineExceededError
    assert error.message == "Outfeed: a value must come within the time given, got none in 0.5 s"
    assert error.op == "Outfeed"
