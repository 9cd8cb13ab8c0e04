"""One upload: its destination, its progress in bytes, and the stream that owns it."""

import dataclasses
import threading
from collections.abc import Callable

from xla_contract.errors import (
    AbortedError,
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    XlaError,
)
from xla_contract.types.shape import UNBOUNDED, Shape
from xla_contract.wire.checksum import crc32
from xla_contract.wire.chunk_codec import ChunkView, check_contiguous
from xla_contract.wire.literals.linear_stream import LinearWriter
from xla_server.backends.platform import Backend, Device
from xla_server.sessions.error_context import copy_of
from xla_server.sessions.values.value_table import Reservation


@dataclasses.dataclass(eq=False)
class Upload:
    """An upload of an array to a device; its memory reservation grows with the bytes that arrive.

    Thread-safe. The lock is held while a chunk is copied, never while waiting for one. Times are
    those of the caller's clock.
    """

    _writer: LinearWriter | None
    _device: Device
    _reservation: Reservation
    _active_at: float

    def __post_init__(self) -> None:
        assert self._writer is not None
        self._shape = self._writer.shape
        self.size = self._shape.byte_size
        self.received = 0
        self._checksum = 0
        self._owner: object = None
        self._notify_owner: Callable[[XlaError], object] | None = None
        self._interrupted_at: float | None = self._active_at
        self._dropped: XlaError | None = None
        self._lock = threading.Lock()

    def check_same(self, shape: Shape | None, device: Device) -> None:
        """Raise InvalidArgumentError if a stated shape is not the upload's."""
        if shape is not None and shape != self._shape:
            raise InvalidArgumentError(
                f"an upload must keep its shape, got {shape} for one of {self._shape}"
            )
        if shape is not None and device != self._device:
            raise InvalidArgumentError(
                f"an upload must keep its device, got {device} for one to {self._device}"
            )

    def take_over(
        self, owner: object, offset: int, on_lost: Callable[[XlaError], object], now: float
    ) -> None:
        """Give the upload to another stream, and end the previous one.

        Raises FailedPreconditionError when `offset` is not the upload's progress. Even then the
        previous stream has lost the upload, so the progress does not change after a new request.
        """
        with self._lock:
            self._check_alive()
            notify_previous, self._notify_owner = self._notify_owner, on_lost
            self._owner = owner
            self._interrupted_at = None
            self._active_at = now
            received = self.received
        if notify_previous is not None:
            notify_previous(_taken_over())
        if offset != received:
            raise FailedPreconditionError(
                f"an upload must be resumed at its progress, got offset {offset} after "
                f"{received} bytes",
                hint="GetUpload returns the offset.",
            )

    def leave(self, owner: object, now: float) -> None:
        """Record that a stream has ended; the upload then waits for another one."""
        with self._lock:
            if self._owner is owner:
                self._owner = self._notify_owner = None
                self._interrupted_at = now

    def was_left_before(self, moment: float) -> bool:
        """Return whether the upload has had no stream since before `moment`."""
        return self._interrupted_at is not None and self._interrupted_at <= moment

    def was_silent_since(self, moment: float) -> bool:
        """Return whether a stream has the upload and sent no chunk since before `moment`."""
        return self._owner is not None and self._active_at <= moment

    def write(self, owner: object, chunk: ChunkView, now: float) -> None:
        """Write the next chunk; raises as `UploadStream.write` does."""
        with self._lock:
            self._check_owner(owner)
            assert self._writer is not None
            check_contiguous(chunk, self.received, self.size)
            arrived = self.received + len(chunk.data)
            self._reservation.grow(arrived, self)
            self._active_at = now
            self._writer.write(chunk.offset, chunk.data)
            self._checksum = crc32(chunk.data, self._checksum)
            self.received = arrived
            if chunk.checksum is not None and chunk.checksum != self._checksum:
                raise DataLossError(
                    f"the bytes must have the checksum sent, got {self._checksum:#010x} for "
                    f"{self.size} bytes sent as {chunk.checksum:#010x}",
                    hint="Upload the value again.",
                )

    def __str__(self) -> str:
        return f"an upload of {self._shape} after {self.received} of {self.size} bytes"

    def check_complete(self, owner: object) -> None:
        """Raise InvalidArgumentError unless all bytes have arrived."""
        with self._lock:
            self._check_owner(owner)
            if self.received != self.size:
                raise InvalidArgumentError(
                    f"the stream must end after the last byte, got its end after {self.received} "
                    f"of {self.size} bytes"
                )

    def keep(self, backend: Backend) -> int:
        """Make the memory a value on the device; return its handle."""
        with self._lock:
            self._check_alive()
            assert self._writer is not None
            literal = self._writer.literal()
            self._writer = None
            self._dropped = AbortedError("the upload has finished")
            buffer = backend.to_device(literal, self._device)
            try:
                return self._reservation.keep(buffer)
            finally:
                self._reservation.release()

    def drop(self, reason: XlaError) -> None:
        """Free the memory; streams get the error `reason`. No effect when done before."""
        with self._lock:
            if self._dropped is not None:
                return
            self._dropped = reason
            self._writer = None
            on_lost, self._notify_owner = self._notify_owner, None
            self._reservation.release()
        if on_lost is not None:
            on_lost(reason)

    def _check_owner(self, owner: object) -> None:
        self._check_alive()
        if self._owner is not owner:
            raise _taken_over()

    def _check_alive(self) -> None:
        if self._dropped is not None:
            raise copy_of(self._dropped)


def _taken_over() -> AbortedError:
    return AbortedError("the upload continues over another stream, which replaced this one")


def require_layout(shape: Shape) -> Shape:
    """Return the shape of an array to upload, if it has a layout and static sizes.

    Raises InvalidArgumentError otherwise.
    """
    if shape.layout is None:
        raise InvalidArgumentError(f"shape must say its layout, got {shape} without")
    if not shape.is_static or UNBOUNDED in shape.dimensions:
        raise InvalidArgumentError(f"shape must have static sizes, got {shape}")
    return shape
