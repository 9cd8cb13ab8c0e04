"""Downloads: chunks, checksums, layouts, and memory that stays while it is sent."""

import zlib

import numpy as np
import pytest

from tests.unit.sessions.engines import shared_resources
from xla_contract.errors import (
    CancelledError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    ResourceExhaustedError,
    UnimplementedError,
)
from xla_contract.types.layout import Layout
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_server.execution.cancellation import Cancellation
from xla_server.sessions.session import Session
from xla_server.sessions.transfers.download import downloading

MESSAGE_BYTES = 1040
VALUE = np.arange(600, dtype=np.float32).reshape(20, 30)


@pytest.fixture
def service() -> Session:
    # Messages of so many bytes have 1000 bytes of data.
    return Session(shared_resources(3000, devices=1, max_message_bytes=MESSAGE_BYTES))


def _keep(service: Session, value: object) -> int:
    literal = Literal.from_numpy(value)
    with service.data.reserve(literal.shape.byte_size, "a test") as reservation:
        backend = service.engine.backend
        return reservation.keep(backend.to_device(literal, backend.devices[0]))


def _chunks(service, handle, shape=None, offset=0):
    with downloading(service.data, handle, shape, offset, MESSAGE_BYTES) as download:
        chunks = download.chunks(Cancellation())
        return [(each.offset, bytes(each.data), each.checksum) for each in chunks]


@pytest.mark.parametrize("offset", [0, 1, 1000, 2399, 2400])
def test_chunks_from_an_offset_have_the_checksum_of_all(service: Session, offset):
    handle = _keep(service, VALUE)
    chunks = _chunks(service, handle, offset=offset)
    whole = VALUE.tobytes()
    assert b"".join(data for _, data, _ in chunks) == whole[offset:]
    assert [at for at, _, _ in chunks] == [*range(offset, 2400, 1000)] or offset == 2400
    assert max(len(data) for _, data, _ in chunks) <= 1000
    assert [checksum for *_, checksum in chunks] == [None] * (len(chunks) - 1) + [zlib.crc32(whole)]


def test_an_array_without_elements_is_one_empty_chunk(service: Session):
    handle = _keep(service, np.zeros(0, np.float32))
    assert _chunks(service, handle) == [(0, b"", 0)]


def test_the_layout_asked_for_is_sent(service: Session):
    handle = _keep(service, VALUE)
    chunks = _chunks(service, handle, Shape.parse("f32[20,30]{0,1}"))
    assert b"".join(data for _, data, _ in chunks) == VALUE.T.tobytes()


def test_sending_takes_no_second_copy_of_the_value(service: Session):
    handle = _keep(service, VALUE)
    with downloading(service.data, handle, Shape.parse("f32[20,30]{0,1}"), 0, MESSAGE_BYTES):
        assert service.engine.memory.used_bytes == VALUE.nbytes
    with (
        pytest.raises(ResourceExhaustedError, match="a padded copy of f32"),
        downloading(service.data, handle, _padded(), 0, MESSAGE_BYTES),
    ):
        pass


def _padded() -> Shape:
    return Shape.parse("f32[20,30]").with_layout(Layout((1, 0), padded_dimensions=(20, 32)))


def test_memory_counts_until_it_is_sent(service: Session):
    handle = _keep(service, VALUE)
    with downloading(service.data, handle, None, 0, MESSAGE_BYTES) as download:
        service.unregister([handle])
        assert service.engine.memory.used_bytes == VALUE.nbytes
        sent = b"".join(bytes(each.data) for each in download.chunks(Cancellation()))
    assert sent == VALUE.tobytes()
    assert service.engine.memory.used_bytes == 0


@pytest.mark.parametrize("offset", [-1, 2401])
def test_an_offset_behind_the_end_is_out_of_range(service: Session, offset):
    handle = _keep(service, VALUE)
    with pytest.raises(OutOfRangeError, match=f"2400 bytes of .* got {offset}"):
        _chunks(service, handle, offset=offset)
    assert service.data.is_held_once(service.data.get(handle))


@pytest.mark.parametrize(
    ("shape", "rule"),
    [("f32[20,30]", "must say its layout"), ("f32[30,20]{1,0}", "must be compatible")],
)
def test_a_shape_that_does_not_fit_is_refused(service: Session, shape, rule):
    with pytest.raises(InvalidArgumentError, match=rule):
        _chunks(service, _keep(service, VALUE), Shape.parse(shape))


def test_only_arrays_that_are_there_are_sent(service: Session):
    with pytest.raises(UnimplementedError, match="only an array is downloaded"):
        _chunks(service, _keep(service, (np.float32(1), np.float32(2))))
    with pytest.raises(NotFoundError):
        _chunks(service, 12345)


def test_reading_what_was_sent_before_can_be_cancelled(service: Session):
    handle = _keep(service, VALUE)
    cancellation = Cancellation()
    cancellation.cancel()
    with (
        downloading(service.data, handle, None, 2000, MESSAGE_BYTES) as download,
        pytest.raises(CancelledError),
    ):
        next(download.chunks(cancellation))
