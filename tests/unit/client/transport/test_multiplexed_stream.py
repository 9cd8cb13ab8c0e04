"""One call at a time on a stream, and what becomes of it when the stream ends."""

import threading
from typing import Any

import pytest

from xla_client.transport.multiplexed_stream import MultiplexedStream, StreamBrokenError
from xla_contract.errors import CancelledError, NotBegunError, UnavailableError, XlaError
from xla_contract.stubs import xla_extension_pb2 as extension_pb2


class Stream:
    """A stream that answers every call with its own request, or as the test says."""

    def __init__(self) -> None:
        self.is_active = True
        self.sent: list[extension_pb2.ConverseRequest] = []
        self.refusal: BaseException | None = None
        self.end: BaseException | None = None
        self.has_ended_well = False
        self.gate: threading.Event | None = None
        self.awaited = threading.Event()
        self.cancelled = 0

    def send(self, message: bytes) -> None:
        if isinstance(self.refusal, XlaError):
            raise self.refusal
        self.sent.append(extension_pb2.ConverseRequest.FromString(message))
        if self.refusal is not None:
            raise self.refusal

    def receive(self) -> bytes | None:
        self.awaited.set()
        if self.gate is not None:
            assert self.gate.wait(100)
        if self.end is not None:
            raise self.end
        if self.has_ended_well:
            return None
        request = self.sent[-1]
        answer = extension_pb2.ConverseResponse(id=request.id, response=request.request)
        return answer.SerializeToString()

    def cancel(self) -> None:
        self.is_active = False
        self.cancelled += 1

    def close(self) -> None:
        self.cancel()


class Streams(list[Stream]):
    """The streams that a conversation has begun."""

    def begin(self) -> Any:
        self.append(Stream())
        return self[-1]


@pytest.fixture
def streams() -> Streams:
    return Streams()


@pytest.fixture
def conversation(streams: Streams) -> MultiplexedStream:
    made = MultiplexedStream(streams.begin)
    made.open()
    return made


PATH = "xla.XlaService/Execute"


def answered(conversation: MultiplexedStream, request: bytes) -> bytes | None:
    answer = conversation.call(PATH, request)
    return None if answer is None else answer.response


def test_calls_go_over_one_stream_with_numbers_of_their_own(streams, conversation) -> None:
    assert [answered(conversation, each) for each in (b"a", b"b")] == [b"a", b"b"]
    (stream,) = streams
    assert [(each.id, each.method) for each in stream.sent] == [(1, PATH), (2, PATH)]
    assert not any(each.timeout_milliseconds for each in stream.sent)


def test_who_comes_while_there_is_a_call_sends_nothing(streams, conversation) -> None:
    streams[0].gate = threading.Event()
    answers: list[bytes | None] = []
    first = threading.Thread(target=lambda: answers.append(answered(conversation, b"first")))
    first.start()
    assert streams[0].awaited.wait(100)
    assert answered(conversation, b"second") is None
    streams[0].gate.set()
    first.join(100)
    assert answers == [b"first"]
    assert [each.request for each in streams[0].sent] == [b"first"]
    assert answered(conversation, b"third") == b"third"


def test_a_stream_that_has_ended_is_begun_anew(streams, conversation) -> None:
    streams[0].is_active = False
    assert answered(conversation, b"a") == b"a"
    assert len(streams) == 2
    # Numbers go on: an answer of the first stream is never taken for one of the second.
    answered(conversation, b"b")
    assert [each.id for each in streams[1].sent] == [1, 2]


def test_a_call_that_could_not_be_sent_was_not_made(streams, conversation) -> None:
    streams[0].refusal = UnavailableError("the connection must last, got its end")
    assert answered(conversation, b"a") is None
    assert answered(conversation, b"b") == b"b"
    assert len(streams) == 2


def test_a_call_that_the_server_did_not_begin_was_not_made(streams, conversation) -> None:
    """The stream ended while the call was on its way."""
    streams[0].end = NotBegunError("a stream may be silent for a while")
    assert answered(conversation, b"a") is None
    assert streams[0].cancelled == 1
    assert answered(conversation, b"b") == b"b"
    assert len(streams) == 2


@pytest.mark.parametrize(
    "end", [UnavailableError("the connection was reset"), CancelledError("the session was closed")]
)
def test_a_stream_that_ends_instead_of_an_answer_breaks_the_call_off(
    streams, conversation, end
) -> None:
    streams[0].end = end
    with pytest.raises(StreamBrokenError) as caught:
        conversation.call(PATH, b"a")
    assert caught.value.__cause__ is end
    # The server is notified, in case it is still busy.
    assert streams[0].cancelled == 1
    assert answered(conversation, b"b") == b"b"
    assert len(streams) == 2


def test_a_stream_that_ends_well_in_a_call_breaks_it_off(streams, conversation) -> None:
    streams[0].has_ended_well = True
    with pytest.raises(StreamBrokenError) as caught:
        conversation.call(PATH, b"a")
    assert isinstance(caught.value.__cause__, UnavailableError)
    assert answered(conversation, b"b") == b"b"


@pytest.mark.parametrize("where", ["refusal", "end"])
def test_an_interrupt_stops_the_call_and_drops_its_answer(streams, conversation, where) -> None:
    """Once the call was sent, and while its answer is awaited."""
    setattr(streams[0], where, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        conversation.call(PATH, b"a")
    assert streams[0].cancelled == 1
    assert answered(conversation, b"b") == b"b"
    assert len(streams) == 2


def test_a_closed_conversation_begins_nothing(streams, conversation) -> None:
    conversation.close()
    assert streams[0].cancelled == 1
    assert answered(conversation, b"a") is None
    conversation.open()
    assert len(streams) == 1
    MultiplexedStream(streams.begin).close()
    assert len(streams) == 1
