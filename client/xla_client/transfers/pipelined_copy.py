"""Transfers of large arrays through shared memory in pieces, while the server copies them out.

A ring is an allocation of some slots with a channel, a socket over which both sides name pieces;
xla_extension.proto has the rules. The first few slots stay in the processor's cache, so an upload
takes little longer than one copy; the others are for pauses of the server.
"""

import contextlib
import dataclasses
import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from google.protobuf.message import Message

from xla_client.transfers.progress import Progress
from xla_client.transfers.shared_memory_socket import GREETING_SECONDS, greet
from xla_contract.errors import AbortedError, FailedPreconditionError, NotFoundError
from xla_contract.stubs import xla_data_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.literal import Array, Literal
from xla_contract.wire.literals.linear_memory import is_row_major
from xla_contract.wire.shape_proto import shape_to_proto
from xla_host.socket_polling import poll_recv, recv_spinning

PIECE_BYTES = 1 << 20
"""Size of a piece in bytes. Smaller pieces are copied slower: from about this size on the C library
bypasses the cache."""

SLOTS = 16
"""Slots of a ring: the most pieces that the client is ahead of the server."""

WARM_SLOTS = 4
"""Number of slots that are reused all the time, as long as the server keeps up."""

THRESHOLD = 4 << 20
"""Size in bytes from which an array is sent in pieces."""

KEPT_RINGS = 4
"""Number of idle rings that are kept for later arrays."""


@dataclasses.dataclass(frozen=True, slots=True)
class RingCalls:
    """Calls and callbacks that an upload needs apart from the writing of pieces."""

    call: Callable[[str, Message, float | None], Any]
    """Makes a call of an rpc by name, with a timeout; raises XlaError."""
    due: Callable[[], Sequence[int]]
    """Returns the handles that the next call is to free."""


_LOG = logging.getLogger(__name__)

_OTHERWISE = AbortedError, FailedPreconditionError, NotFoundError
"""Errors of the ring, not of the value: the array is sent in another way."""


class SharedRing:
    """An allocation of a session with its channel, used for one array at a time.

    `offset` is that of its allocation, `memory` uint8[SLOTS * PIECE_BYTES].
    """

    def __init__(self, offset: int, memory: Array, channel: socket.socket) -> None:
        self.offset = offset
        self._slots = np.split(memory, SLOTS)
        self._channel = channel
        self._free = list(range(SLOTS))

    def write(self, data: Array, progress: Progress | None = None) -> None:
        """Write all of `data`, uint8[size], piece by piece, as slots become free.

        `progress` is called for each piece but the last. Raises OSError if the channel is closed.
        """
        for start in range(0, data.size, PIECE_BYTES):
            if len(self._free) <= SLOTS - WARM_SLOTS:
                self._add(poll_recv(self._channel, SLOTS))
            if not self._free:
                self._add(recv_spinning(self._channel, SLOTS))
            piece, slot = data[start : start + PIECE_BYTES], self._free.pop()
            np.copyto(self._slots[slot][: piece.size], piece)
            self._channel.send(bytes((slot,)))
            if progress is not None and start + PIECE_BYTES < data.size:
                progress(start + PIECE_BYTES, data.size)

    def settle(self) -> None:
        """Wait until all slots are free for the next upload; raises OSError."""
        self._channel.settimeout(GREETING_SECONDS)
        while len(self._free) < SLOTS:
            self._add(recv_spinning(self._channel, SLOTS))
        self._channel.settimeout(None)

    def shut(self) -> None:
        """End the channel, from any thread; a thread that waits in `write` wakes up."""
        with contextlib.suppress(OSError):  # It has ended.
            self._channel.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the channel; the caller must be the only user of the ring."""
        self._channel.close()

    def _add(self, slots: bytes | None) -> None:
        """Add free slots: those written last are used first, while the cache has them."""
        if slots is not None and not slots:
            raise ConnectionResetError("the channel has ended")
        self._free += slots or b""


@dataclasses.dataclass(eq=False)
class RingUploads:
    """The rings of a session. Thread-safe.

    `path` and `token` are those of the session's shared memory. `take` allocates: it returns an
    offset with the memory there, or None; `free` frees allocations by their offsets.
    """

    _path: str
    _token: str
    _calls: RingCalls
    _reserve: Callable[[int, float | None], tuple[int, Array] | None]
    _free: Callable[[list[int]], None]

    def __post_init__(self) -> None:
        self._rings: list[SharedRing] = []
        self._is_closed = False
        # Both ends of an upload copy: more at once would take processors from each other, and are
        # no faster than one copy after the other.
        self._turns = threading.Semaphore(max(1, (os.cpu_count() or 2) // 2))

    def upload(
        self,
        literal: Literal,
        device: xla_data_pb2.DeviceHandle,
        timeout: float | None,
        progress: Progress | None = None,
    ) -> int | None:
        """Keep an array on a device; return its data handle, None if a ring cannot be used.

        Raises the server's error for the value.
        """
        shape, value = literal.shape, literal.value
        is_fit = shape.byte_size >= THRESHOLD and is_row_major(shape) and value.flags.c_contiguous
        if not is_fit or not self._turns.acquire(blocking=False):
            return None
        try:
            ring = self._ring(timeout)
            if ring is None:
                return None
            request = extension_pb2.UploadSharedPiecesRequest(
                offset=ring.offset,
                piece_bytes=PIECE_BYTES,
                shape=shape_to_proto(shape),
                device_handle=device,
                unregister=[
                    xla_data_pb2.GlobalDataHandle(handle=handle) for handle in self._calls.due()
                ],
            )
            data = value.reshape(-1).view(np.uint8)
            return self._pass(ring, data, request, timeout, progress)
        finally:
            self._turns.release()

    def free_kept(self) -> None:
        """Free the rings that are not in use."""
        offsets = []
        while self._rings:
            with contextlib.suppress(IndexError):  # Another thread took the last one.
                ring = self._rings.pop()
                ring.close()
                offsets.append(ring.offset)
        self._free(offsets)

    def close(self) -> None:
        """Close the channels of rings that are not in use; no ring is made from here on."""
        self._is_closed = True
        for ring in self._rings:
            ring.close()

    def _pass(
        self,
        ring: SharedRing,
        data: Array,
        request: extension_pb2.UploadSharedPiecesRequest,
        timeout: float | None,
        progress: Progress | None,
    ) -> int | None:
        """Upload the bytes of an array through a ring, which is kept or freed then."""
        is_settled = False
        failed: list[BaseException] = []

        def write() -> None:
            try:
                ring.write(data, progress)
            except OSError:  # The answer of the call has the reason.
                pass
            except (
                BaseException
            ) as error:  # `progress` raised it: it is raised again in the caller's thread.
                failed.append(error)
                ring.shut()

        writer = threading.Thread(target=write, name="pieces", daemon=True)
        try:
            writer.start()
            try:
                handle = int(self._calls.call("UploadSharedPieces", request, timeout).data.handle)
            # An interrupt too: the thread that waits for free slots must get none.
            except BaseException:
                ring.shut()
                raise
            finally:
                writer.join()
            with contextlib.suppress(OSError):
                ring.settle()
                is_settled = True
        except _OTHERWISE as error:
            if failed:
                raise failed[0] from None
            _LOG.debug("an array does not go in pieces: %s", error)
            return None
        finally:
            self._put_back(ring, keep=is_settled)
        return handle

    def _ring(self, timeout: float | None) -> SharedRing | None:
        """Return a ring for exclusive use, None if there is none."""
        with contextlib.suppress(IndexError):
            return self._rings.pop()
        reserved = self._reserve(SLOTS * PIECE_BYTES, timeout)
        if reserved is None:
            return None
        offset, memory = reserved
        try:
            channel = _attach(self._path, self._token, offset)
        except OSError as error:
            _LOG.debug("no channel with the server: %s", error)
            self._free([offset])
            return None
        return SharedRing(offset, memory, channel)

    def _put_back(self, ring: SharedRing, *, keep: bool) -> None:
        """Keep a ring, or free it: the server first waits for calls that use the ring."""
        if keep and not self._is_closed and len(self._rings) < KEPT_RINGS:
            self._rings.append(ring)
            return
        ring.shut()  # An interrupted upload may have left a thread that uses it.
        ring.close()
        if not self._is_closed:
            self._free([ring.offset])


def _attach(path: str, token: str, offset: int) -> socket.socket:
    """A channel for the allocation at `offset`; raises OSError if there is none."""
    with contextlib.ExitStack() as undo:
        channel = undo.enter_context(greet(path, f"{token} {offset}"))
        if not channel.recv(1):
            raise ConnectionRefusedError("the server gave no channel")
        channel.settimeout(None)
        undo.pop_all()
    return channel
