"""Transfers of large values through memory that a server on the same host shares with this process.

The server names a unix socket when the session is opened. If the socket is on this host, belongs to
the same user and sends a file descriptor for the session's token, the descriptor's memory is
mapped. Values of THRESHOLD bytes and more are then copied into this memory, and messages have their
offset. Still larger values go through a small part of it, piece by piece, while the server copies
them out. Downloaded values stay where the server wrote them: their memory is reused once no array
refers to it. If any of this is missing, values are sent over the connection.
"""

import collections
import contextlib
import dataclasses
import logging
import mmap
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from google.protobuf.message import Message

from xla_client.transfers.pipelined_copy import RingCalls, RingUploads
from xla_client.transfers.progress import Progress, watching, write_in_steps
from xla_client.transfers.shared_memory_socket import GREETING_SECONDS, greet
from xla_contract.client_settings import allows_shared_memory
from xla_contract.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    XlaError,
)
from xla_contract.stubs import xla_data_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.element_type import ElementType
from xla_contract.types.literal import Array, Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.linear_memory import read_linear_memory, write_linear_memory
from xla_contract.wire.shape_proto import shape_to_proto

THRESHOLD = 1 << 18
"""Bytes from which a value goes through shared memory; smaller ones are as fast in a message."""

KEPT_BYTES = 256 << 20
"""Bytes of free allocations that are kept for later values."""

Part: TypeAlias = tuple[int, int]
"""The offset and size of an allocation."""

Call = Callable[[str, Message, float | None], Any]
"""Makes a call of an rpc by name, with a timeout; raises XlaError."""

_LOG = logging.getLogger(__name__)

_SIZE = struct.Struct("<Q")
_POPULATE_WRITE = 23
"""MADV_POPULATE_WRITE: maps allocated pages at once."""


def is_enabled(choice: bool | None) -> bool:
    """Return `choice`, or the environment's if it is None; False except on Linux."""
    wanted = allows_shared_memory() if choice is None else choice
    return wanted and sys.platform == "linux"


class _Lease:
    """The memory of a part that is lent to arrays. The part is returned with the last of them."""

    __slots__ = ("_memory", "_part", "_returned")

    def __init__(self, memory: Array, part: Part, returned: "collections.deque[Part]") -> None:
        self._memory = memory
        self._part = part
        self._returned = returned

    def __del__(self) -> None:
        # Objects are finalized in any thread, so this must not block.
        self._returned.append(self._part)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._memory.__array_interface__


@dataclasses.dataclass(slots=True)
class _Allocated:
    """An allocation in use: its part of the arena, and whether it is lent to an array."""

    part: Part
    memory: Array
    is_leased: bool = False


class SharedMemory:
    """The arena of a session, connected at the first value that is large enough.

    Any thread may call any method; each transfer has an allocation of its own.
    """

    def __init__(
        self, path: str, token: str, call: Call, in_pieces: RingCalls | None = None
    ) -> None:
        """`in_pieces` has the calls for uploads in pieces; None if the server has none."""
        self._path = path
        self._token = token
        self._call = call
        self._pieces: RingUploads | None = None
        if in_pieces is not None:
            self._pieces = RingUploads(path, token, in_pieces, self._reserve_memory, self._free)
        self._connection: socket.socket | None = None
        self._memory: Array | None = None
        self._mapped: mmap.mmap | None = None
        self._is_off = not path
        self._is_connecting = False
        self._kept: list[Part] = []
        self._leased: set[Part] = set()
        self._returned: collections.deque[Part] = collections.deque()
        self._lock = threading.Lock()

    @property
    def is_connected(self) -> bool:
        """True if the shared memory is mapped."""
        return self._memory is not None

    @property
    def leased_bytes(self) -> int:
        """Bytes of allocations that are lent to arrays."""
        with self._lock:
            self._collect()
            return sum(size for _, size in self._leased)

    def upload(
        self,
        literal: Literal,
        device: xla_data_pb2.DeviceHandle,
        timeout: float | None,
        progress: Progress | None = None,
    ) -> int | None:
        """Keep an array on a device. Raises the server's error about the value.

        Args:
            literal: The array.
            device: The device.
            timeout: Seconds until DeadlineExceededError.
            progress: A function that is called for all bytes but the last.

        Returns:
            The data handle; None if the array has to go another way.
        """
        shape = literal.shape
        if not shape.is_array or not shape.is_static or not self._is_worth(shape.byte_size):
            return None
        if self._pieces is not None:
            handle = self._pieces.upload(literal, device, timeout, progress)
            if handle is not None:
                return handle
        with self._allocation(shape.byte_size, timeout) as allocated:
            if allocated is None:
                return None
            memory = allocated.memory[: shape.byte_size]
            if progress is None:
                write_linear_memory(literal, memory)
            else:
                write_in_steps(literal, memory, progress)
            request = extension_pb2.UploadSharedRequest(
                offset=allocated.part[0], shape=shape_to_proto(shape), device_handle=device
            )
            try:
                return int(self._call("UploadShared", request, timeout).data.handle)
            except (FailedPreconditionError, NotFoundError) as error:
                self._turn_off(error)
                return None

    def download(
        self,
        handle: int,
        shape: Shape,
        timeout: float | None,
        progress: Progress | None = None,
    ) -> Literal | None:
        """Fetch the array of a data handle, laid out as `shape`.

        Args:
            handle: The data handle.
            shape: The shape of the array, with its layout.
            timeout: Seconds until DeadlineExceededError.
            progress: A function that is called for all bytes but the last.

        Returns:
            The array; None if it has to come another way.
        """
        if not shape.is_array or not self._is_worth(shape.byte_size):
            return None
        with self._allocation(shape.byte_size, timeout) as allocated:
            if allocated is None:
                return None
            request = extension_pb2.DownloadSharedRequest(
                data=xla_data_pb2.GlobalDataHandle(handle=handle),
                offset=allocated.part[0],
                shape_with_layout=shape_to_proto(shape),
            )
            try:
                with watching(allocated.memory[: shape.byte_size], progress):
                    response = self._call("DownloadShared", request, timeout)
            except FailedPreconditionError as error:
                self._turn_off(error)
                return None
            except NotFoundError:  # The other path reports whether the value is absent.
                return None
            data, sizes = allocated.memory[: shape.byte_size], tuple(response.dynamic_sizes)
            # Types in which some byte is no value are checked.
            is_checked = shape.element_type is ElementType.PRED or shape.element_type.bit_width < 8
            if is_checked or not self._lease(allocated):
                return read_linear_memory(shape, data, dynamic_sizes=sizes)
            leased = np.asarray(_Lease(data, allocated.part, self._returned))
            dtype = shape.element_type.dtype.newbyteorder("<")
            return Literal.from_linear_memory(shape, leased.view(dtype), sizes)

    def close(self) -> None:
        """Disconnect; the server frees the arena."""
        with self._lock:
            self._is_off = True
            connection, self._connection = self._connection, None
            # Unmapped when no transfer refers to it.
            self._memory = self._mapped = None
            self._kept.clear()
            self._leased.clear()
        if self._pieces is not None:
            self._pieces.close()
        if connection is not None:
            connection.close()

    def leave_to_parent(self) -> None:
        """Drop the arena in a forked child; arrays in it are unchanged."""
        self._is_off = True
        if self._pieces is not None:
            self._pieces.close()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _is_worth(self, byte_size: int) -> bool:
        return byte_size >= THRESHOLD and not self._is_off

    @contextlib.contextmanager
    def _allocation(self, byte_size: int, timeout: float | None) -> Iterator[_Allocated | None]:
        """Allocate memory; it goes back in the end, unless it was leased.

        Yields:
            The allocation with its memory; None if there is none.
        """
        allocated = self._allocated(byte_size, timeout)
        if allocated is None:
            yield None
            return
        part = allocated.part
        try:
            yield allocated
        except BaseException as error:  # Any exception, an interrupt too: a part would be lost.
            if allocated.is_leased:
                raise
            # The server may still use the part, and frees it only afterwards.
            is_answer = isinstance(error, InvalidArgumentError | ResourceExhaustedError)
            self._put_back(part, keep=is_answer)
            raise
        if not allocated.is_leased:
            self._put_back(part, keep=True)

    def _allocated(self, byte_size: int, timeout: float | None) -> _Allocated | None:
        memory = self._connected()
        part = None if memory is None else self._reserve(byte_size, timeout)
        if memory is None or part is None or sum(part) > memory.size:
            return None
        offset, size = part
        return _Allocated(part, memory[offset : offset + size])

    def _reserve_memory(self, byte_size: int, timeout: float | None) -> tuple[int, Array] | None:
        """The offset of an allocation for the caller alone, and the requested bytes of it."""
        allocated = self._allocated(byte_size, timeout)
        return None if allocated is None else (allocated.part[0], allocated.memory[:byte_size])

    def _lease(self, allocated: _Allocated) -> bool:
        """Lend a part to an array; False if too little would be left for transfers."""
        with self._lock:
            self._collect()
            size = sum(size for _, size in self._leased) + allocated.part[1]
            if self._memory is None or 2 * size > self._memory.size:
                return False
            self._leased.add(allocated.part)
            allocated.is_leased = True
            return True

    def _collect(self) -> None:
        """Take back the allocations of arrays that are gone. The caller holds the lock."""
        while self._returned:
            part = self._returned.popleft()
            self._leased.discard(part)
            self._kept.append(part)

    def _reserve(self, byte_size: int, timeout: float | None) -> Part | None:
        with self._lock:
            self._collect()
            fitting = [part for part in self._kept if byte_size <= part[1] <= 2 * byte_size]
            if fitting:
                part = min(fitting, key=lambda each: each[1])
                self._kept.remove(part)
                return part
        try:
            return self._allocate(byte_size, timeout)
        except ResourceExhaustedError:
            self._free_kept()
        except FailedPreconditionError as error:
            self._turn_off(error)
            return None
        try:
            return self._allocate(byte_size, timeout)
        except (ResourceExhaustedError, FailedPreconditionError):
            return None

    def _allocate(self, byte_size: int, timeout: float | None) -> Part:
        request = extension_pb2.AllocateSharedRequest(bytes=byte_size)
        part = self._call("AllocateShared", request, timeout).allocation
        mapped = self._mapped
        if mapped is not None:
            # Page by page, as they are met, it would take several times as long.
            with contextlib.suppress(OSError, ValueError):
                mapped.madvise(_POPULATE_WRITE, part.offset, part.bytes)
        return part.offset, part.bytes

    def _put_back(self, part: Part, *, keep: bool) -> None:
        surplus = []
        with self._lock:
            if self._memory is None:
                return
            if keep:
                self._kept.append(part)
                while sum(size for _, size in self._kept) > KEPT_BYTES:
                    surplus.append(self._kept.pop(0))
            else:
                surplus.append(part)
        self._free([offset for offset, _ in surplus])

    def _free_kept(self) -> None:
        with self._lock:
            kept, self._kept = self._kept, []
        self._free([offset for offset, _ in kept])
        if self._pieces is not None:
            self._pieces.free_kept()

    def _free(self, offsets: list[int]) -> None:
        if offsets:
            request = extension_pb2.FreeSharedRequest(offsets=offsets)
            with contextlib.suppress(XlaError):  # An arena that is gone has nothing to free.
                self._call("FreeShared", request, GREETING_SECONDS)

    def _connected(self) -> Array | None:
        """Return the memory; None if there is none, and while another thread connects."""
        memory = self._memory
        if memory is not None or self._is_off:
            return memory
        with self._lock:
            if self._is_connecting or self._memory is not None or self._is_off:
                return self._memory
            self._is_connecting = True
        try:
            connection, mapped = _connect(self._path, self._token)
        except (OSError, ValueError) as error:
            self._is_off = True
            _LOG.debug("no shared memory with the server: %s", error)
            return None
        with self._lock:
            self._is_connecting = False
            if not self._is_off:
                self._connection, self._mapped = connection, mapped
                self._memory = np.frombuffer(mapped, np.uint8)
                return self._memory
        connection.close()  # The client was closed meanwhile.
        return None

    def _turn_off(self, error: XlaError) -> None:
        _LOG.debug("shared memory is not used any more: %s", error)
        self.close()


def _connect(path: str, token: str) -> tuple[socket.socket, mmap.mmap]:
    """The connection and its arena; raises OSError and ValueError if there is none."""
    import fcntl  # Not every system has this module, and only this function needs it.

    with contextlib.ExitStack() as undo:
        connection = undo.enter_context(greet(path, token))
        answer, descriptors, _, _ = socket.recv_fds(
            connection, _SIZE.size, 1, socket.MSG_CMSG_CLOEXEC
        )
        for descriptor in descriptors:
            undo.callback(os.close, descriptor)
        if len(answer) != _SIZE.size or len(descriptors) != 1:
            raise OSError("the server gave no arena")
        if not fcntl.fcntl(descriptors[0], fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
            raise OSError("the arena could shrink")
        mapped = mmap.mmap(descriptors[0], *_SIZE.unpack(answer))
        os.close(descriptors[0])
        undo.pop_all()
    return connection, mapped
