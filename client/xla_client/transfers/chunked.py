"""Transfers of large values in chunks, over streams that may break off.

An array of THRESHOLD bytes and more travels in chunks of 1 MiB if the server has the capability:
straight out of its memory, straight into the memory of the result, whatever its size. A stream that
breaks off is replaced by another one, which continues at the offset that the other side reports.
Each transfer ends with the checksum of all its bytes.
"""

import contextlib
import secrets
import time
from typing import Any, Protocol

from xla_client.transfers.progress import Progress
from xla_contract.errors import (
    DataLossError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    XlaError,
)
from xla_contract.stubs import xla_data_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.checksum import crc32
from xla_contract.wire.chunk_codec import (
    CHUNK_BYTES,
    MAX_ENVELOPE_BYTES,
    ChunkView,
    check_contiguous,
    encode_chunk,
    scan_chunk,
    view_of,
)
from xla_contract.wire.literals.linear_stream import LinearReader, LinearWriter
from xla_contract.wire.shape_proto import shape_from_proto, shape_to_proto
from xla_host.aligned import aligned_empty

THRESHOLD = 16 << 20
"""Bytes from which an array travels in chunks; one message is faster for smaller ones."""

TRIES = 8
"""Number of streams that may break off in a row without transferring another byte."""

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
_ABANDON_SECONDS = 5.0
"""Seconds before the first retry and between the last ones, and for giving an upload up."""


class ChunkStream(Protocol):
    """The methods of a streaming call that transfers use."""

    def send(self, message: Any) -> None:
        """Send a message or bytes, waiting while the send queue is full; raises XlaError."""

    def half_close(self) -> None:
        """Close the sending direction."""

    def receive(self) -> Any:
        """Return the next message, None after a successful end; raises XlaError."""

    def cancel(self) -> None:
        """Cancel the call."""


class ChunkTransport(Protocol):
    """The methods of a transport that transfers use."""

    def call(self, name: str, request: Any, timeout: float | None = None) -> Any:
        """Make a unary call; raises XlaError."""

    def stream(
        self, name: str, request: Any = None, timeout: float | None = None, *, parse: bool = True
    ) -> ChunkStream:
        """Begin a streaming call, whose responses come as bytes without `parse`."""


class ChunkedTransfers:
    """Uploads and downloads in chunks. Thread-safe.

    `max_message_bytes` is the largest message that the server takes.
    """

    def __init__(self, transport: ChunkTransport, max_message_bytes: int) -> None:
        self._transport = transport
        self._max_message_bytes = max_message_bytes
        max_bytes = max_message_bytes - MAX_ENVELOPE_BYTES
        self._chunk_bytes = min(CHUNK_BYTES, max_bytes) if max_bytes > 0 else CHUNK_BYTES

    def can_download(self, shape: Shape) -> bool:
        """Return whether a value of this shape is large enough for a download in chunks."""
        least = min(THRESHOLD, self._max_message_bytes // 2)
        return shape.is_array and shape.byte_size >= least

    def can_upload(self, shape: Shape) -> bool:
        """Return whether a value is static, as chunks have no dynamic sizes, and large enough."""
        return shape.is_static and self.can_download(shape)

    def upload(
        self,
        literal: Literal,
        device: xla_data_pb2.DeviceHandle,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Keep an array of static sizes on a device.

        Interrupted streams are resumed, TRIES times without progress; then, and for any other
        error, the upload is abandoned.

        Args:
            literal: The array.
            device: The device.
            timeout: Seconds until DeadlineExceededError.
            progress: A function of the bytes that have been sent and the bytes of all.

        Returns:
            The data handle.

        Raises:
            FailedPreconditionError: The server refuses the upload in its state.
            NotFoundError: The device or the upload is unknown to the server.
        """
        upload = _Upload(literal, device, progress)
        tries = _Tries(timeout)
        has_broken_off = False
        try:
            while True:
                try:
                    offset = 0
                    if has_broken_off:
                        offset, handle = self._state(upload.id, tries)
                        tries.note(offset)
                        if handle is not None:
                            return handle
                    return self._send(upload, offset, tries)
                except UnavailableError as error:
                    tries.failed(error)
                except (FailedPreconditionError, NotFoundError) as error:
                    # The upload advanced, or expired, after the server had reported its state.
                    if not has_broken_off:
                        raise
                    tries.failed(error)
                has_broken_off = True
        except BaseException:
            # An interrupt too: the received part takes memory until the server drops it.
            with contextlib.suppress(XlaError):
                request = extension_pb2.AbandonUploadRequest(upload_id=upload.id)
                self._transport.call("AbandonUpload", request, _ABANDON_SECONDS)
            raise

    def download(
        self,
        handle: int,
        shape: Shape,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> Literal:
        """Fetch the array of a data handle, in the layout of `shape`, into memory made before.

        A stream that breaks off is replaced by another, which continues, TRIES times without
        progress.

        Args:
            handle: The data handle.
            shape: The shape of the array, with its layout.
            timeout: Seconds until DeadlineExceededError.
            progress: A function of the bytes received so far and in total.

        Returns:
            The array.

        Raises:
            DataLossError: The bytes are not those that were requested, or were changed on the way.
        """
        download = _Download(handle, shape, progress)
        tries = _Tries(timeout)
        while True:
            try:
                self._receive(download, tries)
                return download.literal()
            except UnavailableError as error:
                tries.note(download.received)
                tries.failed(error)

    def _state(self, upload_id: bytes, tries: "_Tries") -> tuple[int, int | None]:
        """Return how many bytes of an upload have arrived, and its handle if it is complete."""
        request = extension_pb2.GetUploadRequest(upload_id=upload_id)
        try:
            state = self._transport.call("GetUpload", request, tries.time_left())
        except NotFoundError:  # Its start did not arrive, or it expired.
            return 0, None
        return state.offset, state.data.handle if state.HasField("data") else None

    def _send(self, upload: "_Upload", offset: int, tries: "_Tries") -> int:
        stream = self._transport.stream("Upload", timeout=tries.time_left())
        try:
            stream.send(extension_pb2.UploadRequest(start=upload.start(offset)))
            upload.send_chunks(stream, offset, self._chunk_bytes)
            stream.half_close()
            response = stream.receive()
        except BaseException:  # An interrupt, too: otherwise the stream would outlive its consumer.
            stream.cancel()
            raise
        if response is None or not response.HasField("data"):
            raise DataLossError("Upload: the response must hold a data handle, got none")
        handle: int = response.data.handle
        return handle

    def _receive(self, download: "_Download", tries: "_Tries") -> None:
        stream = self._transport.stream(
            "Download", download.request(), tries.time_left(), parse=False
        )
        try:
            is_first = True
            while (message := stream.receive()) is not None:
                download.write(message, is_first)
                is_first = False
        except BaseException:  # An interrupt, too: otherwise the stream would outlive its consumer.
            stream.cancel()
            raise
        download.check_complete()


class _Upload:
    """An array on its way to the server."""

    def __init__(
        self, literal: Literal, device: xla_data_pb2.DeviceHandle, progress: Progress | None
    ) -> None:
        self.id = secrets.token_bytes(16)
        self._literal = literal
        self._device = device
        self._reader = LinearReader(literal)
        self._progress = progress
        # CRC-32 of all bytes before each offset at which another stream may continue.
        self._checksums = {0: 0}

    def start(self, offset: int) -> extension_pb2.UploadStart:
        return extension_pb2.UploadStart(
            upload_id=self.id,
            shape=shape_to_proto(self._literal.shape),
            device_handle=self._device,
            offset=offset,
        )

    def send_chunks(self, stream: ChunkStream, offset: int, chunk_bytes: int) -> None:
        """Send the bytes from an offset on, in one chunk at least; the last has the checksum."""
        size = self._reader.size
        checksum = self._checksum_before(offset, chunk_bytes)
        while True:
            stop = min(offset + chunk_bytes, size)
            data = self._reader.part(offset, stop)
            self._checksums[stop] = checksum = crc32(data, checksum)
            stream.send(encode_chunk(offset, data, checksum if stop == size else None))
            if self._progress is not None:
                self._progress(stop, size)
            if stop == size:
                return
            offset = stop

    def _checksum_before(self, offset: int, chunk_bytes: int) -> int:
        known = self._checksums.get(offset)
        if known is not None:
            return known
        checksum = 0
        for start in range(0, offset, chunk_bytes):
            part = self._reader.part(start, min(start + chunk_bytes, offset))
            checksum = crc32(part, checksum)
        return checksum


class _Download:
    """An array on its way from the server."""

    def __init__(self, handle: int, shape: Shape, progress: Progress | None) -> None:
        self._handle = handle
        self._shape = shape
        self._size = shape.byte_size
        self._writer = LinearWriter(shape, aligned_empty((self._size,), "u1"))
        self._progress = progress
        self._checksum = 0
        self._is_verified = False
        self._dynamic_sizes: tuple[int, ...] = ()
        self.received = 0

    def request(self) -> extension_pb2.DownloadRequest:
        return extension_pb2.DownloadRequest(
            data=xla_data_pb2.GlobalDataHandle(handle=self._handle),
            shape_with_layout=shape_to_proto(self._shape),
            offset=self.received,
        )

    def write(self, message: bytes, is_first: bool) -> None:
        """Write the next chunk at its offset."""
        chunk = None if is_first else scan_chunk(message)
        if chunk is None:
            chunk = self._parsed(message, is_first)
        try:
            check_contiguous(chunk, self.received, self._size)
            self._writer.write(chunk.offset, chunk.data)
        except InvalidArgumentError as error:
            raise DataLossError(f"Download: {error.message}") from error
        self._checksum = crc32(chunk.data, self._checksum)
        self.received += len(chunk.data)
        if chunk.checksum is not None:
            if chunk.checksum != self._checksum:
                raise DataLossError(
                    f"Download: the bytes must have the checksum sent, got {self._checksum:#010x} "
                    f"for {self._size} bytes sent as {chunk.checksum:#010x}"
                )
            self._is_verified = True
        if self._progress is not None:
            self._progress(self.received, self._size)

    def check_complete(self) -> None:
        """Raise DataLossError unless all bytes have arrived, with their checksum."""
        if not self._is_verified:
            raise DataLossError(
                f"Download: the stream must end behind the last byte and its checksum, got its end "
                f"after {self.received} of {self._size} bytes"
            )

    def literal(self) -> Literal:
        return self._writer.literal(self._dynamic_sizes)

    def _parsed(self, message: bytes, is_first: bool) -> ChunkView:
        response = extension_pb2.DownloadResponse.FromString(message)
        if is_first:
            shape = shape_from_proto(response.shape) if response.HasField("shape") else None
            if shape != self._shape:
                raise DataLossError(
                    f"Download: the value must have the shape asked for, got {shape} for "
                    f"{self._shape}"
                )
            self._dynamic_sizes = tuple(response.dynamic_sizes)
        return view_of(response.chunk)


class _Tries:
    """Number of retries of broken streams, and their deadline."""

    def __init__(self, timeout: float | None) -> None:
        self._timeout = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._furthest = 0
        self._left = TRIES
        self._pause = _FIRST_PAUSE

    def note(self, offset: int) -> None:
        """Reset the count if more bytes have arrived than ever before."""
        if offset > self._furthest:
            self._furthest = offset
            self._left = TRIES
            self._pause = _FIRST_PAUSE

    def failed(self, error: XlaError) -> None:
        """Wait before the next attempt; raises `error` if there is none."""
        self._left -= 1
        left = self.time_left()
        if self._left <= 0 or (left is not None and left <= self._pause):
            raise error
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def time_left(self) -> float | None:
        """Seconds until the deadline, None without; DeadlineExceededError when it has passed."""
        if self._deadline is None:
            return None
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise DeadlineExceededError(
                f"the transfer must end within the time given, got none in {self._timeout} s"
            )
        return left
