"""Large arrays that pass through shared memory in pieces, while the server copies them out.

A ring is an allocation of some places with a line, a socket over which both sides tell of pieces;
xla_extension.proto has the rules. Pieces of a few places stay in the processor's cache, so an
upload takes little longer than one copy; the others are for when the server stands still.
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
from xla_contract.errors import (
    AbortedError,
    FailedPreconditionError,
    NotFoundError,
)
from xla_contract.piece_line import poll_recv, recv_spinning
from xla_contract.stubs import xla_data_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.literal import Array, Literal
from xla_contract.wire.literals.linear_memory import is_row_major
from xla_contract.wire.shape_proto import shape_to_proto

PIECE_BYTES = 1 << 20
"""Smaller ones are copied slower: the C library goes around the cache from about this size on."""

PLACES = 16

WARM_PLACES = 4
"""Places that are written again and again, as long as the server keeps up."""

THRESHOLD = 4 << 20
"""Bytes from which an array goes in pieces."""

KEPT_RINGS = 4
"""Rings that are kept for later arrays."""


@dataclasses.dataclass(frozen=True, slots=True)
class Calls:
    """What uploads do beside writing pieces."""

    call: Callable[[str, Message, float | None], Any]
    """Makes a call of an rpc by name, with a timeout; raises XlaError."""
    due: Callable[[], Sequence[int]]
    """Handles that the next call is to free."""


_LOG = logging.getLogger(__name__)

_OTHERWISE = AbortedError, FailedPreconditionError, NotFoundError
"""Errors of a way, not of the value."""


class SharedRing:
    """An allocation of a session with its line, used for one array at a time.

    `offset` is that of its allocation, `memory` uint8[PLACES * PIECE_BYTES].
    """

    def __init__(self, offset: int, memory: Array, line: socket.socket) -> None:
        self.offset = offset
        self._places = np.split(memory, PLACES)
        self._line = line
        self._free = list(range(PLACES))

    def write(self, data: Array, progress: Progress | None = None) -> None:
        """Write all of `data`, uint8[size], piece by piece, as places become free.

        `progress` is told of each but the last. Raises OSError when the line ends.
        """
        for start in range(0, data.size, PIECE_BYTES):
            if len(self._free) <= PLACES - WARM_PLACES:
                self._add(poll_recv(self._line, PLACES))
            if not self._free:
                self._add(recv_spinning(self._line, PLACES))
            piece, place = data[start : start + PIECE_BYTES], self._free.pop()
            np.copyto(self._places[place][: piece.size], piece)
            self._line.send(bytes((place,)))
            if progress is not None and start + PIECE_BYTES < data.size:
                progress(start + PIECE_BYTES, data.size)

    def settle(self) -> None:
        """After an upload: see all places free for the next; raises OSError."""
        self._line.settimeout(GREETING_SECONDS)
        while len(self._free) < PLACES:
            self._add(recv_spinning(self._line, PLACES))
        self._line.settimeout(None)

    def shut(self) -> None:
        """End the line, from any thread; who waits in `write` goes on."""
        with contextlib.suppress(OSError):  # It has ended.
            self._line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the line; for who has the ring alone."""
        self._line.close()

    def _add(self, places: bytes | None) -> None:
        """Take places that are free again: those written last are on top."""
        if places is not None and not places:
            raise ConnectionResetError("the line has ended")
        self._free += places or b""


class Pieces:
    """The rings of a session. Any thread may call any method.

    `path` and `token` are those of its shared memory. `take` allocates: it gives an offset with the
    memory there, or None; `free` gives allocations back by their offsets.
    """

    def __init__(
        self,
        path: str,
        token: str,
        calls: Calls,
        take: Callable[[int, float | None], tuple[int, Array] | None],
        free: Callable[[list[int]], None],
    ) -> None:
        self._path = path
        self._token = token
        self._calls = calls
        self._take = take
        self._free = free
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
        """Keep an array on a device; gives its data handle, None if it has to go another way.

        Raises what the server says of the value.
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
        """Free the rings that nobody uses."""
        offsets = []
        while self._rings:
            with contextlib.suppress(IndexError):  # Another thread took the last one.
                ring = self._rings.pop()
                ring.close()
                offsets.append(ring.offset)
        self._free(offsets)

    def close(self) -> None:
        """Close the lines of rings that nobody uses; there will be none any more."""
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
            except OSError:  # The answer of the call says why.
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
            except BaseException:  # An interrupt too: whoever waits for places gets none.
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
        """A ring that nobody else uses; None where there is none."""
        with contextlib.suppress(IndexError):
            return self._rings.pop()
        taken = self._take(PLACES * PIECE_BYTES, timeout)
        if taken is None:
            return None
        offset, memory = taken
        try:
            line = _attach(self._path, self._token, offset)
        except OSError as error:
            _LOG.debug("no line with the server: %s", error)
            self._free([offset])
            return None
        return SharedRing(offset, memory, line)

    def _put_back(self, ring: SharedRing, *, keep: bool) -> None:
        """Keep a ring, or free it: the server waits for a call that may still be at it."""
        if keep and not self._is_closed and len(self._rings) < KEPT_RINGS:
            self._rings.append(ring)
            return
        ring.shut()  # Who was interrupted may have left a thread at it.
        ring.close()
        if not self._is_closed:
            self._free([ring.offset])


def _attach(path: str, token: str, offset: int) -> socket.socket:
    """A line for the allocation at `offset`; raises OSError where there is none."""
    with contextlib.ExitStack() as undo:
        line = undo.enter_context(greet(path, f"{token} {offset}"))
        if not line.recv(1):
            raise ConnectionRefusedError("the server gave no line")
        line.settimeout(None)
        undo.pop_all()
    return line
