"""The chunk codec against the official encoding, and the rules of chunks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs.xla_extension_pb2 import Chunk, DownloadResponse, UploadRequest
from xla_contract.wire.chunk_codec import (
    MAX_CHUNK_BYTES,
    MAX_ENVELOPE_BYTES,
    ChunkView,
    check_contiguous,
    encode_chunk,
    scan_chunk,
    view_of,
)

OFFSETS = st.one_of(st.integers(0, 300), st.integers(0, 2**63 - 1))
DATA = st.one_of(st.binary(max_size=300), st.integers(0, 70_000).map(bytes))
CHECKSUMS = st.none() | st.integers(0, 2**32 - 1)


def _official(offset: int, data: bytes, checksum: int | None) -> Chunk:
    return Chunk(offset=offset, data=data, checksum=checksum)


@given(OFFSETS, DATA, CHECKSUMS)
def test_what_is_written_is_the_official_encoding(offset, data, checksum):
    ours = encode_chunk(offset, memoryview(data), checksum)
    chunk = _official(offset, data, checksum)
    assert ours == UploadRequest(chunk=chunk).SerializeToString()
    assert ours == DownloadResponse(chunk=chunk).SerializeToString()
    assert len(ours) - len(data) <= MAX_ENVELOPE_BYTES
    assert scan_chunk(ours) == (offset, data, checksum)


def _field(number: int, kind: int, body: bytes) -> bytes:
    return bytes([number << 3 | kind]) + body


def _varint(value: int, extra: int = 0) -> bytes:
    """A varint with `extra` bytes more than it needs."""
    encoded = []
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    for _ in range(extra):
        encoded[-1] |= 0x80
        encoded.append(0)
    return bytes(encoded)


def _bytes_field(number: int, body: bytes, extra: int = 0) -> bytes:
    return _field(number, 2, _varint(len(body), extra) + body)


EXTRA = st.sampled_from([0, 0, 0, 1])
PARTS = st.one_of(
    st.tuples(st.integers(0, 2**64 - 1), EXTRA).map(lambda each: _field(1, 0, _varint(*each))),
    st.tuples(st.binary(max_size=20), EXTRA).map(lambda each: _bytes_field(2, *each)),
    st.binary(min_size=4, max_size=4).map(lambda four: _field(3, 5, four)),
    st.binary(min_size=8, max_size=8).map(lambda eight: _field(3, 1, eight)),
    st.binary(max_size=4).map(lambda body: _bytes_field(9, body)),
    st.binary(max_size=3),
)


@given(
    st.lists(st.lists(PARTS, max_size=4).map(b"".join), min_size=1, max_size=2),
    EXTRA,
    st.binary(max_size=2),
    st.integers(0, 3),
)
def test_what_is_read_is_what_the_official_parser_reads(bodies, extra, tail, cut):
    message = b"".join(_bytes_field(2, body, extra) for body in bodies) + tail
    message = message[: len(message) - cut]
    ours = scan_chunk(message)
    if ours is None:
        return
    # Whatever is taken here must be well formed for protobuf, and mean the same.
    request = UploadRequest.FromString(message)
    assert request.WhichOneof("part") == "chunk"
    assert ours == view_of(request.chunk)


@given(st.binary(max_size=40))
def test_arbitrary_bytes_are_read_as_officially_or_not_at_all(message):
    ours = scan_chunk(message)
    if ours is not None:
        assert ours == view_of(UploadRequest.FromString(message).chunk)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        UploadRequest(start={"upload_id": b"1"}).SerializeToString(),
        _bytes_field(2, _bytes_field(2, b"ab") + _field(1, 0, b"\x05")),
        _bytes_field(2, _bytes_field(2, b"a") + _bytes_field(2, b"b")),
        _bytes_field(2, _bytes_field(2, b"a")) + _bytes_field(2, _field(1, 0, b"\x05")),
        _bytes_field(2, _field(1, 0, _varint(5, 1))),
        _bytes_field(2, _field(1, 0, _varint(2**64 - 1))),
        _bytes_field(2, _bytes_field(9, b"a")),
    ],
)
def test_unusual_messages_are_left_to_the_official_parser(message):
    assert scan_chunk(message) is None


@pytest.mark.parametrize(
    ("chunk", "rule"),
    [
        (ChunkView(5, memoryview(b"abc")), "must follow one another, got offset 5 after 4"),
        (ChunkView(3, memoryview(b"abc")), "must follow one another, got offset 3 after 4"),
        (ChunkView(-1, memoryview(b"abc")), "got offset -1"),
        (ChunkView(4, memoryview(b"1234567")), "must have 10 bytes in all, got 7 more after 4"),
        (ChunkView(4, memoryview(b"12"), 0), "only the last chunk may have a checksum"),
        (ChunkView(4, memoryview(bytes(MAX_CHUNK_BYTES + 1))), "at most 4194304 bytes"),
    ],
)
def test_chunks_that_do_not_follow_are_refused(chunk, rule):
    check_contiguous(ChunkView(4, memoryview(b"123456"), 9), 4, 10)
    with pytest.raises(InvalidArgumentError, match=rule):
        check_contiguous(chunk, 4, 10)
