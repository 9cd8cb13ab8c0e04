"""Uploads in chunks, over one stream or, after interruptions, several.

An upload's destination has its final size from the start; memory is reserved as chunks arrive and
touch it. Chunks arrive in order, so one number states the progress. The destination becomes the
value.
"""

import dataclasses
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

import numpy as np

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
from xla_contract.wire.chunk_codec import ChunkView, check_contiguous
from xla_contract.wire.literals.linear_stream import LinearWriter
from xla_server.backends.platform import Backend
from xla_server.execution.memory_check import LARGE, require_bytes
from xla_server.runtime.blocks import BlockPool, block_size
from xla_server.sessions.feeds.device_table import DeviceHandle, DeviceTable
from xla_server.sessions.limits.server_limits import Limits
from xla_server.sessions.transfers.upload import Upload, require_layout
from xla_server.sessions.values.value_table import ValueTable

MAX_UPLOADS = 64
"""Largest number of uploads in progress in a session."""

MAX_FINISHED = 1024
"""Largest number of finished uploads that a session remembers."""

MAX_ID_BYTES = 64
"""Largest size of an upload's id in bytes, as UploadStart states."""


@dataclasses.dataclass(frozen=True, slots=True)
class UploadState:
    """Progress of an upload; `handle` is that of the value, once the upload has finished."""

    offset: int
    size: int
    handle: int | None = None


@dataclasses.dataclass(eq=False)
class UploadTable:
    """The uploads of one session. Thread-safe."""

    _values: ValueTable
    _devices: DeviceTable
    _backend: Backend
    _blocks: BlockPool
    _limits: Limits
    clock: Callable[[], float] = time.monotonic
    """Clock for expiry, in seconds."""

    def __post_init__(self) -> None:
        self._in_progress: dict[bytes, Upload] = {}
        self._finished: OrderedDict[bytes, tuple[UploadState, float]] = OrderedDict()
        """The uploads whose values are on the device, and when they ended."""
        self._is_closed = False
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._in_progress) + len(self._finished)

    def begin(
        self,
        upload_id: bytes,
        shape: Shape | None,
        device: DeviceHandle | None,
        offset: int,
        on_lost: Callable[[XlaError], object],
    ) -> "UploadStream":
        """Begin or resume an upload, for a stream that must `leave` it in the end.

        The previous stream of the upload gets AbortedError, through its `on_lost`, which
        must not wait. Raises InvalidArgumentError for an invalid id or shape or a changed shape,
        and FailedPreconditionError for an offset other than the upload's progress. Raises
        ResourceExhaustedError, before memory is allocated, for too many uploads or too little
        memory for the value, and UnauthenticatedError if the session has ended.
        """
        if not 0 < len(upload_id) <= MAX_ID_BYTES:
            raise InvalidArgumentError(
                f"upload_id must have 1 to {MAX_ID_BYTES} bytes, got {len(upload_id)}"
            )
        self.expire()
        with self._lock:
            if self._is_closed:
                raise UnauthenticatedError(
                    "a session must be open to upload to it, got one that has ended"
                )
            finished = self._finished.get(upload_id)
            if finished is not None:
                return _FinishedUpload(finished[0], offset)
            upload = self._in_progress.get(upload_id)
            if upload is None:
                upload = self._new(shape, device, offset)
                self._in_progress[upload_id] = upload
            else:
                upload.check_same(shape, self._devices.resolve(device))
        stream = UploadStream(self, upload_id, upload)
        try:
            upload.take_over(stream, offset, on_lost, self.clock())
        except BaseException:
            stream.leave()
            raise
        return stream

    def state(self, upload_id: bytes) -> UploadState:
        """Return the progress of an upload; NotFoundError if there is none of this id."""
        self.expire()
        with self._lock:
            finished = self._finished.get(upload_id)
            if finished is not None:
                return finished[0]
            upload = self._in_progress.get(upload_id)
        if upload is None:
            raise _unknown(upload_id)
        return UploadState(upload.received, upload.size)

    def abandon(self, upload_id: bytes) -> None:
        """Free an upload's memory, or forget one that has finished, whose value remains valid.

        Raises NotFoundError if there is none of this id.
        """
        self.expire()
        with self._lock:
            if self._finished.pop(upload_id, None) is not None:
                return
            upload = self._in_progress.pop(upload_id, None)
        if upload is None:
            raise _unknown(upload_id)
        upload.drop(AbortedError("the upload was abandoned"))

    def expire(self) -> None:
        """Drop interrupted uploads and forget finished ones, both after the grace period.

        Uploads whose streams have sent no chunk for `upload_silence_seconds` are dropped too.
        """
        now = self.clock()
        oldest = now - self._limits.upload_grace_seconds
        since = now - self._limits.upload_silence_seconds
        with self._lock:
            while self._finished:
                upload_id, (_, ended) = next(iter(self._finished.items()))
                if ended > oldest and len(self._finished) <= MAX_FINISHED:
                    break
                del self._finished[upload_id]
            interrupted_ids = [
                key for key, each in self._in_progress.items() if each.was_left_before(oldest)
            ]
            silent_ids = [
                key for key, each in self._in_progress.items() if each.was_silent_since(since)
            ]
            interrupted = [self._in_progress.pop(key) for key in interrupted_ids]
            silent = [self._in_progress.pop(key) for key in silent_ids]
        for upload in interrupted:
            upload.drop(AbortedError("the upload was interrupted and not resumed in time"))
        for upload in silent:
            seconds = self._limits.upload_silence_seconds
            upload.drop(
                UnavailableError(
                    f"the next chunk of an upload must come within {seconds:g} s, got none "
                    f"after {upload.received} of {upload.size} bytes, which were given up",
                    hint="Upload the value again.",
                )
            )

    def close(self) -> None:
        """Free all uploads and refuse new ones."""
        with self._lock:
            self._is_closed = True
            dropped = list(self._in_progress.values())
            self._in_progress.clear()
            self._finished.clear()
        for upload in dropped:
            upload.drop(AbortedError("the session of the upload has ended"))

    def finish(self, upload_id: bytes, upload: Upload) -> int:
        """Make the value of a complete upload; return its handle."""
        try:
            handle = upload.keep(self._backend)
        except XlaError as error:
            self.forget(upload_id, upload, error)
            raise
        with self._lock:
            self._remove(upload_id, upload)
            self._finished[upload_id] = UploadState(upload.size, upload.size, handle), self.clock()
        return handle

    def forget(self, upload_id: bytes, upload: Upload, reason: XlaError) -> None:
        """Drop an upload that can no longer become a value."""
        with self._lock:
            self._remove(upload_id, upload)
        upload.drop(reason)

    def _remove(self, upload_id: bytes, upload: Upload) -> None:
        if self._in_progress.get(upload_id) is upload:
            del self._in_progress[upload_id]

    def _new(self, shape: Shape | None, device: DeviceHandle | None, offset: int) -> Upload:
        if offset != 0:
            raise NotFoundError(
                f"only an upload in progress can be resumed, got offset {offset} for an id "
                "without one",
                hint="Interrupted uploads are kept for the grace period of sessions.",
            )
        target = self._devices.resolve(device)
        checked = _checked(shape)
        if len(self._in_progress) >= MAX_UPLOADS:
            raise ResourceExhaustedError(
                f"a session may have {MAX_UPLOADS} uploads in progress, got one more with "
                f"{len(self._in_progress)} there",
                hint="Abandon those that will not be resumed.",
            )
        reservation = self._values.reserve_later(checked.byte_size, f"an upload of {checked}")
        try:
            if checked.byte_size >= LARGE:
                require_bytes(checked.byte_size, checked)
            block = self._blocks.allocate(block_size(checked.byte_size))
            memory = np.asarray(block)[: checked.byte_size]
            writer = LinearWriter(checked, memory)
            return Upload(writer, target, reservation, self.clock())
        except BaseException:
            reservation.release()
            raise


@dataclasses.dataclass(slots=True, eq=False)
class UploadStream:
    """An upload as one stream uses it."""

    _uploads: UploadTable
    _id: bytes
    _upload: Upload

    def write(self, chunk: ChunkView) -> None:
        """Write the next chunk.

        Raises InvalidArgumentError for bytes that do not follow, are too many or are no values of
        the shape. Raises DataLossError for a wrong checksum and ResourceExhaustedError for too
        little memory; both end the upload. Raises AbortedError if the upload was taken over or
        given up.
        """
        try:
            self._upload.write(self, chunk, self._uploads.clock())
        except (DataLossError, ResourceExhaustedError) as error:
            self._uploads.forget(self._id, self._upload, error)
            raise

    def finish(self) -> int:
        """The handle of the value, at the stream's end.

        Raises InvalidArgumentError when bytes are missing, which may still come over another
        stream; AbortedError when the upload was taken over or dropped; ResourceExhaustedError
        when there are too many handles.
        """
        self._upload.check_complete(self)
        return self._uploads.finish(self._id, self._upload)

    def leave(self) -> None:
        """Record the end of the stream, successful or not."""
        self._upload.leave(self, self._uploads.clock())


class _FinishedUpload(UploadStream):
    """A finished upload whose client did not learn of it: no further bytes can arrive."""

    def __init__(self, finished: UploadState, offset: int) -> None:
        if offset != finished.size:
            raise FailedPreconditionError(
                f"an upload must be resumed at its progress, got offset {offset} for one that has "
                f"finished with {finished.size} bytes",
                hint="Begin another upload under another upload_id.",
            )
        self._finished = finished

    def write(self, chunk: ChunkView) -> None:
        check_contiguous(chunk, self._finished.size, self._finished.size)

    def finish(self) -> int:
        assert self._finished.handle is not None
        return self._finished.handle

    def leave(self) -> None:
        """Do nothing: no thread waits."""


def _checked(shape: Shape | None) -> Shape:
    if shape is None:
        raise InvalidArgumentError("a new upload must say its shape, got none")
    if not shape.is_array:
        raise InvalidArgumentError(
            f"only an array is uploaded in chunks, got {shape}",
            hint="Upload the elements of a tuple and make it with a program.",
        )
    return require_layout(shape)


def _unknown(upload_id: bytes) -> NotFoundError:
    return NotFoundError(
        f"an upload of this session is needed, got id {upload_id[:MAX_ID_BYTES].hex()}, which "
        "there never was or which has ended",
        hint="Interrupted uploads are kept for the grace period of sessions.",
    )
