"""Streams of feeds from the server's side, at their ends."""

import queue
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from google.rpc import status_pb2

from tests.unit.sessions.engines import shared_resources
from tests.unit.threads import no_threads
from xla_contract.errors import InvalidArgumentError, ResourceExhaustedError
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.layout import Layout
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.value_proto import value_to_proto
from xla_contract.wire.shape_proto import shape_to_proto
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.calls.method_table import Deferred, Streaming, Unary
from xla_server.rpc.methods.feeds import METHODS
from xla_server.sessions.feeds.infeed_stream import InfeedStream
from xla_server.sessions.session import Session

VECTOR = Shape.parse("f32[4]{0}")


class Call:
    """A stream of an rpc in a thread of its own; what else sends on it waits for `can_send`."""

    def __init__(self, rpc: str) -> None:
        self.service = Session(shared_resources(1000, max_message_bytes=1000))
        self.said: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.sent: list[Any] = []
        self.can_send = threading.Event()
        self.is_waiting = threading.Event()
        row = METHODS[rpc]
        assert isinstance(row, Streaming)
        self._method = row.method
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def receive(self) -> Any:
        return self.said.get()

    def serves_others(self, is_idle: Callable[[], bool]) -> None:
        assert is_idle()

    def send(self, message: Any) -> None:
        if threading.current_thread() is not self._thread:
            self.is_waiting.set()
            assert self.can_send.wait(100)
        self.sent.append(message)

    def join(self, seconds: float = 10) -> None:
        self._thread.join(seconds)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        session: Any = types.SimpleNamespace(service=self.service)
        stream: Any = self
        try:
            self._method(session, stream, Cancellation())
        except BaseException as error:
            self.error = error


def _wrong_item(number: int) -> extension_pb2.InfeedRequest:
    value = value_to_proto(Literal.from_numpy([1.0]))
    item = extension_pb2.FeedItem(sequence=number, value=value)
    return extension_pb2.InfeedRequest(items=extension_pb2.FeedItems(items=[item]))


def test_refusals_on_their_way_are_reported_before_the_last_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    has_ended, end = threading.Event(), InfeedStream.end

    def noted(stream: InfeedStream) -> Any:
        last = end(stream)
        has_ended.set()
        return last

    monkeypatch.setattr(InfeedStream, "end", noted)
    call = Call("Infeed")
    start = extension_pb2.InfeedStart(shape=shape_to_proto(VECTOR))
    call.said.put(extension_pb2.InfeedRequest(start=start))
    call.said.put(_wrong_item(1))
    assert call.is_waiting.wait(100)
    # The refusal is not on its way yet when the client has no more to say.
    call.said.put(None)
    assert has_ended.wait(100)
    call.can_send.set()
    call.join()
    assert not call.is_alive
    assert call.error is None
    parts = [message.WhichOneof("part") for message in call.sent]
    assert parts == ["started", "refused", "progress", "progress"]
    assert [message.progress.received for message in call.sent[2:]] == [1, 1]


@pytest.mark.parametrize("width", [10**3, 2**40])
def test_an_outfeed_stream_does_not_declare_what_no_message_could_hold(width: int) -> None:
    call = Call("Outfeed")
    padded = VECTOR.with_layout(Layout((0,), (width,)))
    start = extension_pb2.OutfeedStart(shape_with_layout=shape_to_proto(padded))
    call.said.put(extension_pb2.OutfeedRequest(start=start))
    call.join()
    assert isinstance(call.error, ResourceExhaustedError)
    assert f"got a value of {4 * width}" in call.error.message


ITEMS = extension_pb2.InfeedRequest(items=extension_pb2.FeedItems())
PROGRESS = extension_pb2.OutfeedRequest(progress=extension_pb2.OutfeedProgress())
INFEED = extension_pb2.InfeedRequest(start=extension_pb2.InfeedStart())
OUTFEED = extension_pb2.OutfeedRequest(start=extension_pb2.OutfeedStart())


@pytest.mark.parametrize(
    ("rpc", "requests", "rule"),
    [
        ("Infeed", [None], "the first InfeedRequest must hold start, got none"),
        ("Infeed", [extension_pb2.InfeedRequest()], "must hold start, got none"),
        ("Infeed", [ITEMS], "the first InfeedRequest must hold start, got items"),
        ("Infeed", [INFEED, INFEED], "after the first must hold items or flush, got start"),
        ("Infeed", [INFEED, extension_pb2.InfeedRequest()], "hold items or flush, got none"),
        ("Outfeed", [PROGRESS], "the first OutfeedRequest must hold start, got progress"),
        ("Outfeed", [OUTFEED, OUTFEED], "after the first must hold progress, got start"),
        (
            "Outfeed",
            [extension_pb2.OutfeedRequest(start=extension_pb2.OutfeedStart(next_sequence=-1))],
            "next_sequence must not be negative, got -1",
        ),
    ],
)
def test_requests_come_in_their_order(rpc: str, requests: list[Any], rule: str) -> None:
    call = Call(rpc)
    for request in requests:
        call.said.put(request)
    call.join()
    call.said.put(None)
    assert type(call.error) is InvalidArgumentError
    assert rule in call.error.message


@pytest.mark.parametrize(("rpc", "start"), [("Infeed", INFEED), ("Outfeed", OUTFEED)])
def test_a_stream_is_refused_where_the_system_refuses_its_thread(rpc: str, start: Any) -> None:
    call = Call(rpc)
    with no_threads():
        call.said.put(start)
        call.join()
    assert type(call.error) is ResourceExhaustedError
    assert "able to start threads" in call.error.message


@pytest.mark.parametrize("rpc", ["DrainFeed", "CloseFeed"])
def test_a_direction_is_one_of_two(rpc: str) -> None:
    service = Session(shared_resources(1000))
    row = METHODS[rpc]
    assert isinstance(row, Deferred | Unary)
    method: Any = row.method
    # The call is refused before it begins.
    rest = (Cancellation(), None) if isinstance(row, Deferred) else (Cancellation(),)
    for direction in (0, 3):
        request = getattr(extension_pb2, f"{rpc}Request")(direction=direction)
        with pytest.raises(
            InvalidArgumentError, match=f"that of infeed or outfeed, got number {direction}$"
        ):
            method(service, request, *rest)


def test_an_item_that_cannot_be_read_is_refused_by_its_number() -> None:
    call = Call("Infeed")
    call.can_send.set()
    call.said.put(
        extension_pb2.InfeedRequest(start=extension_pb2.InfeedStart(shape=shape_to_proto(VECTOR)))
    )
    request = _wrong_item(1)
    value = value_to_proto(Literal.from_numpy(np.ones(4, np.float32)))
    request.items.items[0].value.CopyFrom(value)
    request.items.items[0].value.data = b"123"
    call.said.put(request)
    call.said.put(None)
    call.join()
    assert call.error is None
    (refused,) = [each.refused for each in call.sent if each.WhichOneof("part") == "refused"]
    assert refused.sequence == 1
    status = status_pb2.Status.FromString(refused.status)
    assert status.code == InvalidArgumentError.code
    assert "16 bytes, got 3" in status.message
