"""One upload: its owner, the bytes that have arrived, and the release of its memory."""

import itertools
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.sessions.engines import shared_resources
from xla_contract.errors import (
    AbortedError,
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnauthenticatedError,
    XlaError,
)
from xla_contract.types.shape import Shape
from xla_contract.wire.chunk_codec import ChunkView
from xla_contract.wire.literals.linear_stream import LinearWriter
from xla_server.sessions.session import Session
from xla_server.sessions.transfers.upload import Upload

VALUE = np.arange(6, dtype=np.int32).reshape(2, 3)
ROWS, COLUMNS = Shape.parse("s32[2,3]{1,0}"), Shape.parse("s32[2,3]{0,1}")
BYTES = VALUE.tobytes()
SIZE = len(BYTES)


class Case:
    """An upload of a session, begun by `owner`."""

    def __init__(self, shape: Shape = ROWS) -> None:
        self.service = Session(shared_resources(1000, devices=2))
        self.device = self.service.engine.backend.devices[1]
        memory = np.empty(SIZE, np.uint8)
        self.now = 5.0
        reservation = self.service.data.reserve_later(SIZE, "a test")
        self.upload = Upload(LinearWriter(shape, memory), self.device, reservation, self.now)
        self.owner = object()
        self.reported: list[XlaError] = []
        self.upload.take_over(self.owner, 0, self.reported.append, 5.0)

    def write(self, start: int = 0, stop: int = SIZE, checksum: int | None = None) -> None:
        chunk = ChunkView(start, memoryview(BYTES)[start:stop], checksum)
        self.upload.write(self.owner, chunk, self.now)

    @property
    def reserved(self) -> int:
        return self.service.data.reserved_bytes

    def end(self) -> None:
        self.service.close()
        assert self.service.engine.memory.used_bytes == 0


@given(st.lists(st.integers(0, SIZE), max_size=6), st.booleans())
@settings(max_examples=40, deadline=None)
def test_any_chunks_become_the_value(cuts: list[int], is_turned: bool) -> None:
    case = Case(COLUMNS if is_turned else ROWS)
    places = [0, *sorted(cuts), SIZE]
    for start, stop in itertools.pairwise(places):
        case.write(start, stop, zlib.crc32(BYTES) if stop == SIZE else None)
        assert case.upload.received == stop
    case.upload.check_complete(case.owner)
    handle = case.upload.keep(case.service.engine.backend)
    expected = np.frombuffer(BYTES, np.int32)
    expected = expected.reshape(3, 2).T if is_turned else expected.reshape(2, 3)
    kept = case.service.data.get(handle)
    np.testing.assert_array_equal(kept.to_literal().to_numpy(), expected)
    assert kept.device == case.device
    assert (case.reserved, case.service.data.used_bytes) == (0, SIZE)
    case.end()


def test_it_keeps_its_shape_and_its_device() -> None:
    case = Case()
    first = case.service.engine.backend.devices[0]
    case.upload.check_same(ROWS, case.device)
    # A stream without a shape resumes the upload.
    case.upload.check_same(None, first)
    with pytest.raises(
        InvalidArgumentError,
        match=r"must keep its shape, got s32\[2,3\]\{0,1\} for one of s32\[2,3\]\{1,0\}$",
    ):
        case.upload.check_same(COLUMNS, case.device)
    with pytest.raises(
        InvalidArgumentError, match=r"its device, got interpreter:0 for one to interpreter:1$"
    ):
        case.upload.check_same(ROWS, first)


def test_chunks_follow_one_another() -> None:
    case = Case()
    case.write(0, 10)
    for start, stop in ((0, 10), (9, 20), (11, 20)):
        with pytest.raises(InvalidArgumentError, match=f"got offset {start} after 10 bytes"):
            case.write(start, stop)
    too_much = ChunkView(10, memoryview(bytes(SIZE)), None)
    with pytest.raises(InvalidArgumentError, match=f"{SIZE} bytes"):
        case.upload.write(case.owner, too_much, 5.0)
    assert case.upload.received == 10
    with pytest.raises(InvalidArgumentError, match=f"its end after 10 of {SIZE} bytes$"):
        case.upload.check_complete(case.owner)
    case.write(10)
    case.upload.check_complete(case.owner)


def test_bytes_with_another_checksum_are_lost() -> None:
    case = Case()
    case.write(0, 10)
    with pytest.raises(DataLossError) as caught:
        case.write(10, checksum=0x1234)
    for evidence in (f"{zlib.crc32(BYTES):#010x}", f"{SIZE} bytes", "0x00001234"):
        assert evidence in caught.value.message
    assert "again" in caught.value.hint


def test_another_stream_takes_over_and_the_one_before_is_notified() -> None:
    case = Case()
    case.write(0, 10)
    before, reported, second = case.owner, case.reported, object()
    case.upload.take_over(second, 10, lambda error: None, 5.0)
    assert [type(error) for error in reported] == [AbortedError]
    assert "over another stream" in reported[0].message
    with pytest.raises(AbortedError, match="continues over another stream"):
        case.write(10)
    with pytest.raises(AbortedError, match="continues over another stream"):
        case.upload.check_complete(before)
    # The end of a stream that has lost it says nothing of it.
    case.upload.leave(before, 50.0)
    assert not case.upload.was_left_before(100.0)
    case.owner = second
    case.write(10)


def test_who_takes_over_at_another_offset_has_it_and_is_asked_to_query() -> None:
    case = Case()
    case.write(0, 10)
    second = object()
    with pytest.raises(
        FailedPreconditionError, match="resumed at its progress, got offset 9 after 10 bytes"
    ) as caught:
        case.upload.take_over(second, 9, lambda error: None, 5.0)
    assert "GetUpload" in caught.value.hint
    # Only one stream writes, so the offset stays.
    assert len(case.reported) == 1
    with pytest.raises(AbortedError):
        case.write(10)
    assert case.upload.received == 10


def test_it_is_left_when_its_stream_has_ended() -> None:
    case = Case()
    assert not case.upload.was_left_before(1000.0)
    case.upload.leave(case.owner, 7.0)
    assert case.upload.was_left_before(7.0)
    assert not case.upload.was_left_before(6.9)
    case.upload.take_over(object(), 0, case.reported.append, 8.0)
    assert case.reported == []
    assert not case.upload.was_left_before(1000.0)


def test_memory_is_reserved_for_the_bytes_that_have_arrived() -> None:
    case = Case()
    assert case.reserved == 0
    for stop in (4, 10, SIZE):
        case.write(case.upload.received, stop)
        assert case.reserved == stop
    case.upload.keep(case.service.engine.backend)
    assert (case.reserved, case.service.data.used_bytes) == (0, SIZE)
    case.end()


def test_a_chunk_without_memory_does_not_arrive_and_says_how_far_it_came() -> None:
    case = Case()
    case.write(0, 4)
    with case.service.data.reserve(1000 - 4 - 8, "others"):
        rule = rf"16 bytes more for an upload of s32\[2,3\].* after 4 of {SIZE} .* with 992 in use"
        with pytest.raises(ResourceExhaustedError, match=rule):
            case.write(4, 20)
        assert (case.upload.received, case.reserved) == (4, 992)
    case.write(4)
    case.upload.drop(AbortedError("over"))
    case.end()


def test_it_is_silent_while_a_stream_has_it_and_sends_no_chunk() -> None:
    case = Case()
    assert case.upload.was_silent_since(5.0)
    assert not case.upload.was_silent_since(4.9)
    case.now = 6.0
    case.write(0, 4)
    assert not case.upload.was_silent_since(5.9)
    case.upload.take_over(object(), 4, case.reported.append, 7.0)
    assert not case.upload.was_silent_since(6.9)
    assert case.upload.was_silent_since(7.0)
    case.upload.leave(case.owner, 7.0)  # Of the stream before.
    assert case.upload.was_silent_since(7.0)


def test_an_upload_that_no_stream_has_is_not_silent() -> None:
    case = Case()
    case.upload.leave(case.owner, 7.0)
    assert not case.upload.was_silent_since(1000.0)


def test_an_upload_that_no_stream_has_had_is_left_from_the_start() -> None:
    case = Case()
    reservation = case.service.data.reserve(SIZE, "a test")
    fresh = Upload(LinearWriter(ROWS, np.empty(SIZE, np.uint8)), case.device, reservation, 3.0)
    assert fresh.was_left_before(3.0)
    assert not fresh.was_left_before(2.9)


def test_what_is_dropped_gives_its_memory_back_once_and_says_why() -> None:
    case = Case()
    case.write(0, 10)
    reason = AbortedError("given up", hint="begin again")
    case.upload.drop(reason)
    assert case.reported == [reason]
    assert case.reserved == 0
    case.upload.drop(AbortedError("for another reason"))
    assert case.reported == [reason]
    for use in (
        lambda: case.write(10),
        lambda: case.upload.check_complete(case.owner),
        lambda: case.upload.take_over(object(), 10, case.reported.append, 8.0),
        lambda: case.upload.keep(case.service.engine.backend),
    ):
        with pytest.raises(AbortedError, match=r"(?m)^given up$") as caught:
            use()
        assert caught.value.hint == "begin again"
        assert caught.value is not reason
    case.end()


def test_a_kept_upload_has_finished() -> None:
    case = Case()
    case.write()
    case.upload.keep(case.service.engine.backend)
    with pytest.raises(AbortedError, match="the upload has finished"):
        case.upload.keep(case.service.engine.backend)
    with pytest.raises(AbortedError, match="the upload has finished"):
        case.write()
    # Dropping it later takes nothing from the value.
    case.upload.drop(AbortedError("too late"))
    assert (case.reported, case.service.data.used_bytes) == ([], SIZE)
    case.end()


def test_a_value_that_cannot_be_kept_frees_what_was_set_aside() -> None:
    case = Case()
    case.write()
    case.service.close()
    with pytest.raises(UnauthenticatedError, match="must be open"):
        case.upload.keep(case.service.engine.backend)
    assert case.reserved == 0
    case.end()
