"""Chunks of transfers on the wire, written and read without a message object.

A chunk travels as field 2 of UploadRequest and of DownloadResponse. The written bytes are those
that protobuf writes; a message in another form than the usual one is left to protobuf's parser.
"""

from typing import NamedTuple

from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs.xla_extension_pb2 import Chunk
from xla_contract.wire.varint import encode_varint, read_varint

CHUNK_BYTES = 1 << 20
"""Bytes of data in a chunk that we send."""

MAX_CHUNK_BYTES = 4 << 20
"""Bytes of data that a chunk may have."""

MAX_ENVELOPE_BYTES = 40
"""Bound of a chunk message's size without its data, in bytes: at most 11 + 11 + 11 + 5."""

_LONGEST_VARINT = 9
"""Bytes of a number that fits in an int64."""

_PART_TAG = 2 << 3 | 2
_OFFSET_TAG = 1 << 3
_DATA_TAG = 2 << 3 | 2
_CHECKSUM_TAG = 3 << 3 | 5
"""Tags of the fields of UploadRequest, DownloadResponse and Chunk: number and wire type."""


class ChunkView(NamedTuple):
    """A chunk whose data is a part of the message that it was received in.

    `offset` is in bytes; `checksum` is CRC-32, or None if the sender states none.
    """

    offset: int
    data: memoryview
    checksum: int | None = None


def encode_chunk(offset: int, data: memoryview | bytes, checksum: int | None = None) -> bytes:
    """Return the bytes of `UploadRequest(chunk=...)`, equal to `DownloadResponse(chunk=...)`.

    `data` are contiguous bytes; they are copied once.
    """
    head = b"" if offset == 0 else bytes((_OFFSET_TAG,)) + encode_varint(offset)
    size = len(data)
    if size:
        head += bytes((_DATA_TAG,)) + encode_varint(size)
    tail = b"" if checksum is None else bytes((_CHECKSUM_TAG,)) + checksum.to_bytes(4, "little")
    whole = encode_varint(len(head) + size + len(tail))
    return b"".join((bytes((_PART_TAG,)), whole, head, data, tail))


def scan_chunk(message: bytes | memoryview) -> ChunkView | None:
    """Return the chunk of a message that holds one and nothing else, each field once and in order.

    The result is None for every other message, well-formed or not: the official parser decides on
    those.
    """
    try:
        return _scanned(memoryview(message))
    except IndexError:
        return None


def _scanned(view: memoryview) -> ChunkView | None:
    end = len(view)
    if end < 2 or view[0] != _PART_TAG:
        return None
    size, at = read_varint(view, 1, end, _LONGEST_VARINT)
    if at + size != end:
        return None
    offset = 0
    if at < end and view[at] == _OFFSET_TAG:
        offset, at = read_varint(view, at + 1, end, _LONGEST_VARINT)
    data = view[at:at]
    if at < end and view[at] == _DATA_TAG:
        size, at = read_varint(view, at + 1, end, _LONGEST_VARINT)
        if at + size > end:
            return None
        data = view[at : at + size]
        at += size
    checksum = None
    if at + 5 <= end and view[at] == _CHECKSUM_TAG:
        checksum = int.from_bytes(view[at + 1 : at + 5], "little")
        at += 5
    return ChunkView(offset, data, checksum) if at == end else None


def view_of(chunk: Chunk) -> ChunkView:
    """The chunk of a message that protobuf has parsed."""
    checksum = chunk.checksum if chunk.HasField("checksum") else None
    return ChunkView(chunk.offset, memoryview(chunk.data), checksum)


def check_contiguous(chunk: ChunkView, received: int, size: int) -> None:
    """Raise InvalidArgumentError unless a chunk follows `received` bytes of `size`.

    Raises:
        InvalidArgumentError: There is a gap, an overlap, too many bytes, a chunk above
            MAX_CHUNK_BYTES, or a checksum before the end.
    """
    count = len(chunk.data)
    if chunk.offset != received:
        raise InvalidArgumentError(
            f"chunks must follow one another, got offset {chunk.offset} after {received} bytes"
        )
    if count > MAX_CHUNK_BYTES:
        raise InvalidArgumentError(
            f"a chunk must have at most {MAX_CHUNK_BYTES} bytes, got {count} at offset {received}"
        )
    if received + count > size:
        raise InvalidArgumentError(
            f"chunks must have {size} bytes in all, got {count} more after {received}"
        )
    if chunk.checksum is not None and received + count < size:
        raise InvalidArgumentError(
            "only the last chunk may have a checksum, got one after "
            f"{received + count} of {size} bytes"
        )
