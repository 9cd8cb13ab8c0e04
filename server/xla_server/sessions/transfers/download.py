"""Downloads in chunks, straight from a value's memory."""

import contextlib
from collections.abc import Iterator

from xla_contract.errors import OutOfRangeError, UnimplementedError
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.checksum import crc32
from xla_contract.wire.chunk_codec import CHUNK_BYTES, MAX_ENVELOPE_BYTES, ChunkView
from xla_contract.wire.literals.linear_stream import LinearReader
from xla_server.execution.cancellation import Cancellation
from xla_server.sessions.values.value_table import ValueTable, checked_layout


class Download:
    """The download of one array, from a byte offset on."""

    def __init__(self, literal: Literal, offset: int, chunk_bytes: int) -> None:
        reader = LinearReader(literal)
        if not 0 <= offset <= reader.size:
            raise OutOfRangeError(
                f"offset must be within the {reader.size} bytes of {literal.shape}, got {offset}"
            )
        self.shape = literal.shape
        self.dynamic_sizes = literal.dynamic_sizes
        self._reader = reader
        self._offset = offset
        self._chunk_bytes = chunk_bytes

    def chunks(self, cancellation: Cancellation) -> Iterator[ChunkView]:
        """Yield one chunk or more; the last has the checksum of all bytes, skipped ones included.

        A chunk's data is valid until the next one is requested. Raises the error of `cancellation`.
        """
        size, checksum = self._reader.size, 0
        for start in range(0, self._offset, self._chunk_bytes):
            cancellation.check()
            stop = min(start + self._chunk_bytes, self._offset)
            checksum = crc32(self._reader.part(start, stop), checksum)
        at = self._offset
        while True:
            stop = min(at + self._chunk_bytes, size)
            data = self._reader.part(at, stop)
            checksum = crc32(data, checksum)
            yield ChunkView(at, data, checksum if stop == size else None)
            if stop == size:
                return
            at = stop


@contextlib.contextmanager
def downloading(
    values: ValueTable, handle: int, shape: Shape | None, offset: int, max_message_bytes: int
) -> Iterator[Download]:
    """The value under a handle from byte `offset` on, in the layout of `shape` or its own.

    Its memory counts as the session's until the block ends, even if the handle is freed. Raises
    the errors of `ValueTable.get`, ValuePendingError among them. Raises UnimplementedError for a
    value that is no array, InvalidArgumentError for a `shape` that does not fit the value,
    OutOfRangeError for an offset behind the end. Raises ResourceExhaustedError if there is no
    memory for a padded copy.
    """
    held = values.hold([handle])
    try:
        buffer = values.get(handle)
        if not buffer.shape.is_array:
            raise UnimplementedError(
                f"only an array is downloaded in chunks, got {buffer.shape}",
                hint="Take tuples apart with DeconstructTuple.",
            )
        literal = buffer.to_literal(checked_layout(shape, buffer.shape))
        max_bytes = max_message_bytes - MAX_ENVELOPE_BYTES
        layout = literal.shape.layout_or_default
        # A padded value is laid out whole; others are sent from their own memory.
        copied = literal.shape.byte_size if layout.is_padded else 0
        with values.reserve(copied, f"a padded copy of {literal.shape}"):
            yield Download(literal, offset, min(CHUNK_BYTES, max_bytes))
        values.note_fetched([handle])
    finally:
        values.release(held)
