"""The life of uploads: chunks, streams that break off or are taken over, memory that comes back."""

import zlib

import numpy as np
import pytest

from tests.unit.clock import Clock
from xla_contract.errors import (
    AbortedError,
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
    XlaError,
)
from xla_contract.types.shape import Shape
from xla_contract.wire.chunk_codec import ChunkView
from xla_server.backends.interpreter import Interpreter
from xla_server.rpc.threads.thread_pool import ThreadPool
from xla_server.sessions.feeds.device_table import DeviceHandle
from xla_server.sessions.limits.server_limits import Limits
from xla_server.sessions.session import Session
from xla_server.sessions.shared_resources import SharedResources
from xla_server.sessions.transfers import upload_table as uploads
from xla_server.sessions.transfers.upload_table import (
    MAX_FINISHED,
    MAX_UPLOADS,
    UploadStream,
    UploadTable,
)

GRACE = 60.0
SILENCE = 90.0
VALUE = np.arange(8, dtype=np.int32)
BYTES = VALUE.tobytes()
SHAPE = Shape.parse("s32[8]{0}")


class Case:
    """A session with its uploads, and the errors of streams."""

    def __init__(self, max_bytes: int = 1000, spared: int = 0) -> None:
        limits = Limits(
            max_device_bytes=max_bytes,
            upload_grace_seconds=GRACE,
            upload_silence_seconds=SILENCE,
            spared_device_bytes=spared,
        )
        engine = SharedResources(Interpreter(2), limits, ThreadPool(1, "execution"))
        self.service = service = Session(engine)
        self.clock = Clock()
        self.uploads = service.uploads = UploadTable(
            service.data, service.devices, engine.backend, engine.blocks, limits, self.clock
        )
        self.reported: list[XlaError] = []

    def begin(self, offset: int = 0, key: bytes = b"1", shape: Shape | None = SHAPE, device=None):
        return self.uploads.begin(key, shape, device, offset, self.reported.append)

    @property
    def reserved(self) -> int:
        return self.service.data.reserved_bytes

    def value(self, handle: int) -> np.ndarray:
        return self.service.transfer_to_client(handle, None).value


@pytest.fixture
def case() -> Case:
    return Case()


def _write(
    upload: UploadStream, start: int = 0, stop: int = len(BYTES), checksum: int | None = None
) -> None:
    upload.write(ChunkView(start, memoryview(BYTES)[start:stop], checksum))


def test_chunks_become_a_value_and_nothing_stays_set_aside(case: Case):
    upload = case.begin()
    assert case.reserved == 0
    _write(upload, 0, 5)
    assert case.reserved == 5
    assert case.uploads.state(b"1") == uploads.UploadState(5, 32)
    _write(upload, 5, 32, zlib.crc32(BYTES))
    handle = upload.finish()
    assert case.value(handle).tolist() == VALUE.tolist()
    assert (case.reserved, case.service.data.used_bytes) == (0, 32)
    case.service.unregister([handle])
    assert case.service.engine.memory.used_bytes == 0


def test_the_destination_is_the_value(case: Case):
    upload = case.begin()
    _write(upload)
    value = case.value(upload.finish())
    assert value.ctypes.data % 64 == 0
    assert value.base is not None
    assert not value.flags.writeable


def test_an_array_without_elements_needs_no_chunk(case: Case):
    upload = case.begin(shape=Shape.parse("f32[0]{0}"))
    assert case.value(upload.finish()).size == 0


@pytest.mark.parametrize(
    ("key", "shape", "rule"),
    [
        (b"", SHAPE, "upload_id must have 1 to 64 bytes, got 0"),
        (bytes(65), SHAPE, "upload_id must have 1 to 64 bytes, got 65"),
        (b"1", None, "a new upload must say its shape"),
        (b"1", Shape.parse("s32[8]"), "shape must say its layout"),
        (b"1", Shape.parse("(s32[8]{0})"), "only an array is uploaded"),
        (b"1", Shape.parse("s32[<=8]{0}"), "shape must have static sizes"),
    ],
)
def test_what_cannot_be_uploaded_is_refused_at_the_start(case: Case, key, shape, rule):
    with pytest.raises(InvalidArgumentError, match=rule):
        case.begin(key=key, shape=shape)
    assert case.reserved == 0


def test_the_device_must_be_there(case: Case):
    with pytest.raises(InvalidArgumentError, match="ordinal must be below 2"):
        case.begin(device=DeviceHandle(2, 3))


def test_what_has_no_memory_is_refused_before_it_is_allocated(case: Case):
    with pytest.raises(ResourceExhaustedError, match="may take 1000 bytes"):
        case.begin(shape=Shape.parse("f32[1000000000000]{0}"))
    assert case.uploads._in_progress == {}
    assert case.reserved == 0


def test_what_cannot_be_allocated_leaves_nothing_set_aside(monkeypatch, case: Case):
    def fail(size: int) -> None:
        raise MemoryError

    monkeypatch.setattr(case.service.engine.blocks, "allocate", fail)
    with pytest.raises(MemoryError):
        case.begin()
    assert (case.reserved, case.uploads._in_progress) == (0, {})


def test_uploads_under_way_are_limited():
    case = Case(max_bytes=10**6)
    for number in range(MAX_UPLOADS):
        case.begin(key=b"%d" % number)
    with pytest.raises(ResourceExhaustedError, match=f"may have {MAX_UPLOADS} uploads"):
        case.begin(key=b"one more")


def test_an_end_before_the_last_byte_leaves_the_upload(case: Case):
    upload = case.begin()
    _write(upload, 0, 4)
    with pytest.raises(InvalidArgumentError, match="end after the last byte, got its end after 4"):
        upload.finish()
    upload.leave()
    again = case.begin(offset=4)
    _write(again, 4)
    assert case.value(again.finish()).tolist() == VALUE.tolist()


def test_a_wrong_checksum_loses_the_upload(case: Case):
    upload = case.begin()
    _write(upload, 0, 4)
    with pytest.raises(DataLossError, match="must have the checksum sent"):
        _write(upload, 4, 32, zlib.crc32(BYTES) ^ 1)
    assert case.reserved == 0
    with pytest.raises(NotFoundError):
        case.uploads.state(b"1")
    with pytest.raises(DataLossError):
        upload.finish()


def test_a_checksum_may_come_behind_the_last_byte(case: Case):
    upload = case.begin()
    _write(upload)
    _write(upload, 32, 32, zlib.crc32(BYTES))
    assert case.value(upload.finish()).tolist() == VALUE.tolist()


def test_a_second_stream_takes_over(case: Case):
    first = case.begin()
    _write(first, 0, 4)
    second = case.begin(offset=4, shape=None)
    (reported,) = case.reported
    assert isinstance(reported, AbortedError)
    for late in (lambda: _write(first, 4, 8), first.finish):
        with pytest.raises(AbortedError, match="over another stream"):
            late()
    first.leave()
    case.clock.now += GRACE
    _write(second, 4)
    assert case.value(second.finish()).tolist() == VALUE.tolist()


def test_another_offset_than_has_arrived_is_refused_and_stops_what_arrives(case: Case):
    first = case.begin()
    _write(first, 0, 8)
    with pytest.raises(FailedPreconditionError, match="got offset 4 after 8 bytes"):
        case.begin(offset=4)
    with pytest.raises(AbortedError):
        _write(first, 8, 12)
    _write(case.begin(offset=8), 8)


@pytest.mark.parametrize(
    ("shape", "device", "rule"),
    [
        (Shape.parse("s32[9]{0}"), None, "must keep its shape"),
        (SHAPE, DeviceHandle(1, 2), "must keep its device"),
    ],
)
def test_an_upload_stays_what_it_is(case: Case, shape, device, rule):
    case.begin()
    with pytest.raises(InvalidArgumentError, match=rule):
        case.begin(shape=shape, device=device)
    assert case.reported == []


def test_only_what_is_there_goes_on(case: Case):
    with pytest.raises(NotFoundError, match="got offset 4"):
        case.begin(offset=4)
    for ask in (case.uploads.state, case.uploads.abandon):
        with pytest.raises(NotFoundError, match="got id 31"):
            ask(b"1")


def test_what_breaks_off_is_kept_for_the_grace_period(case: Case):
    upload = case.begin()
    _write(upload, 0, 5)
    case.clock.now += GRACE
    case.service.uploads.expire()
    assert case.reserved == 5
    upload.leave()
    case.clock.now += GRACE - 1
    case.service.uploads.expire()
    assert case.reserved == 5
    case.clock.now += 1
    case.service.uploads.expire()
    assert case.reserved == 0
    assert case.reported == []


def test_starts_alone_take_nothing_from_others(case: Case):
    large = Shape.parse("f32[250]{0}")
    for number in range(12):
        case.begin(key=b"%d" % number, shape=large)
    case.service.data.reserve(1000, "everything").release()


def test_a_start_without_memory_for_all_that_would_come_is_refused(case: Case):
    with (
        case.service.data.reserve(969, "others"),
        pytest.raises(ResourceExhaustedError, match=r"32 bytes more for an upload of s32\[8\]"),
    ):
        case.begin()
    case.begin()


def test_a_chunk_without_memory_gives_everything_back_at_once(case: Case):
    upload = case.begin()
    _write(upload, 0, 16)
    with case.service.data.reserve(970, "others"):
        with pytest.raises(ResourceExhaustedError, match=r"16 bytes more .* after 16 of 32 bytes"):
            _write(upload, 16)
        assert case.reserved == 970
    assert case.uploads._in_progress == {}
    with pytest.raises(ResourceExhaustedError):
        upload.finish()


def test_uploads_in_progress_leave_a_share_to_others():
    case = Case(max_bytes=100, spared=40)
    first, second = case.begin(), case.begin(key=b"2")
    _write(first)
    _write(second, 0, 24)
    with pytest.raises(ResourceExhaustedError, match=r"leave 40 of 100 bytes.*8 bytes more.*56 in"):
        _write(second, 24)
    with pytest.raises(ResourceExhaustedError, match=r"leave 40 of 100 bytes.*32 bytes more.*32"):
        case.begin(key=b"3")
    first.finish()
    case.service.data.reserve(68, "a value that arrived at once").release()


def test_an_upload_whose_stream_is_silent_ends_and_frees_what_arrived(case: Case):
    upload = case.begin()
    case.clock.now += SILENCE - 1
    _write(upload, 0, 16)
    case.clock.now += SILENCE - 1
    case.service.uploads.expire()
    assert (case.reserved, case.reported) == (16, [])
    case.clock.now += 1
    case.service.uploads.expire()
    assert case.reserved == 0
    (reported,) = case.reported
    assert isinstance(reported, UnavailableError)
    assert "must come within 90 s, got none after 16 of 32 bytes" in reported.message
    with pytest.raises(UnavailableError):
        _write(upload, 16)
    with pytest.raises(NotFoundError):
        case.uploads.state(b"1")
    upload.leave()


def test_a_finished_upload_is_remembered_for_a_while(case: Case):
    upload = case.begin()
    _write(upload)
    handle = upload.finish()
    upload.leave()
    assert case.uploads.state(b"1") == uploads.UploadState(32, 32, handle)
    again = case.begin(offset=32)
    assert again.finish() == handle
    again.leave()
    with pytest.raises(InvalidArgumentError, match="32 bytes in all, got 1 more"):
        again.write(ChunkView(32, memoryview(b"x")))
    with pytest.raises(FailedPreconditionError, match="one that has finished"):
        case.begin()
    case.clock.now += GRACE
    with pytest.raises(NotFoundError):
        case.uploads.state(b"1")
    assert case.value(handle).tolist() == VALUE.tolist()


def test_few_finished_uploads_are_remembered():
    case = Case(max_bytes=10**6)
    empty = Shape.parse("f32[0]{0}")
    for number in range(MAX_FINISHED + 5):
        case.begin(key=b"%d" % number, shape=empty).finish()
    case.service.uploads.expire()
    assert len(case.uploads._finished) == MAX_FINISHED
    with pytest.raises(NotFoundError):
        case.uploads.state(b"0")


def test_abandoning_frees_what_arrived_and_ends_the_stream(case: Case):
    upload = case.begin()
    _write(upload, 0, 4)
    case.uploads.abandon(b"1")
    assert case.reserved == 0
    assert [type(each) for each in case.reported] == [AbortedError]
    with pytest.raises(AbortedError, match="abandoned"):
        _write(upload, 4)
    upload.leave()


def test_abandoning_what_finished_keeps_the_value(case: Case):
    upload = case.begin()
    _write(upload)
    handle = upload.finish()
    case.uploads.abandon(b"1")
    assert case.value(handle).tolist() == VALUE.tolist()
    with pytest.raises(NotFoundError):
        case.uploads.abandon(b"1")


def test_the_end_of_the_session_frees_everything(case: Case):
    _write(case.begin(), 0, 8)
    done = case.begin(key=b"2")
    _write(done)
    done.finish()
    memory = case.service.engine.memory
    assert memory.used_bytes == 40
    case.service.close()
    assert memory.used_bytes == 0
    assert [type(each) for each in case.reported] == [AbortedError]


def test_nothing_is_begun_after_the_end_of_the_session(case: Case):
    case.service.close()
    with pytest.raises(UnauthenticatedError, match="one that has ended"):
        case.begin()
    assert case.service.engine.memory.used_bytes == 0


def test_a_value_without_a_handle_frees_its_memory(monkeypatch, case: Case):
    upload = case.begin()
    _write(upload)

    monkeypatch.setattr(case.service.data.handles, "_limit", 0)
    with pytest.raises(ResourceExhaustedError, match="0 data handles"):
        upload.finish()
    assert case.service.engine.memory.used_bytes == 0
    with pytest.raises(NotFoundError):
        case.uploads.state(b"1")
