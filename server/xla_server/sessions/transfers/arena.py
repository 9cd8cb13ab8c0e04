"""Memory that a client on the same host shares with the server.

An arena is a file in memory. Its descriptor is given to one client, which may keep it for as long
as it likes and write to it at any time. The descriptor cannot be revoked, so an arena that a client
had never serves another session. A session reuses the same pages, because fresh ones are expensive:
a copy into them takes ten times as long.

The file has its full size from the beginning, and seals forbid to change it, so that a client
cannot make the server access pages beyond its end. Pages are allocated with the parts. A client may
write to other pages, too (stray bytes): they count as well, and are released every few seconds and
when memory is needed.
"""

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np

from xla_contract.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    ResourceExhaustedError,
)
from xla_contract.types.literal import Array
from xla_server.sessions.transfers.free_list import FreeList

_POPULATE_WRITE = 23
"""MADV_POPULATE_WRITE, since Linux 5.14."""

_PUNCH_HOLE_AND_KEEP_SIZE = 2 | 1
"""FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE."""

_BLOCK_BYTES = 512
"""Unit of st_blocks, in bytes."""

_NO_PART = -1
"""An offset at which no part begins."""


class Arena:
    """`capacity` bytes of address space, a multiple of PAGE, with the parts allocated in it.

    Thread-safe. `grow` is called with the bytes that get memory, and raises if there may be none;
    `shrink` with the bytes that are released. Raises OSError if the system gives no sealed file.
    """

    def __init__(
        self, capacity: int, grow: Callable[[int], None], shrink: Callable[[int], None]
    ) -> None:
        self.capacity = capacity
        self._grow = grow
        self._shrink = shrink
        self._parts = FreeList(capacity)
        self._users: dict[int, int] = {}
        self._freed: set[int] = set()
        self._backed = 0
        self.stray_bytes = 0
        """Bytes that the client has written outside all parts, as of the last `scan_strays`."""
        self._idle_since: float | None = time.monotonic()
        self._lock = threading.Lock()
        self._descriptor = _sealed_file(capacity)
        try:
            mapped = mmap.mmap(self._descriptor, capacity)
        except OSError:
            os.close(self._descriptor)
            raise
        # The memory is unmapped with the last array of it, so no copy meets a hole.
        self._memory: Array | None = np.frombuffer(mapped, np.uint8)

    @property
    def part_count(self) -> int:
        """The number of allocated parts."""
        return len(self._parts)

    @property
    def backed_bytes(self) -> int:
        """Bytes with memory: up to the farthest end of a part since the last `trim`, and strays."""
        self.scan_strays()
        return self._backed + self.stray_bytes

    def scan_strays(self, *, drops: bool = False) -> None:
        """Count the bytes that the client has written outside all parts, unless the lock is held.

        With `drops`, release their memory.
        """
        if self._lock.acquire(blocking=False):
            try:
                (self._drop_strays if drops else self._count_strays)()
            finally:
                self._lock.release()

    def _drop_strays(self) -> None:
        self._count_strays()
        if self.stray_bytes:
            _discard(self._descriptor, self._backed, self.capacity - self._backed)
            self._count_strays()

    def _count_strays(self) -> None:
        if self._memory is None:
            self.stray_bytes = 0
        else:
            actual = os.fstat(self._descriptor).st_blocks * _BLOCK_BYTES
            self.stray_bytes = max(0, actual - self._backed)

    @property
    def is_closed(self) -> bool:
        """True after `close`."""
        return self._memory is None

    def idle_seconds(self, now: float) -> float:
        """Return the seconds without allocated parts, at a time of time.monotonic()."""
        since = self._idle_since
        return 0.0 if since is None else now - since

    def allocate(self, byte_size: int) -> tuple[int, int]:
        """Allocate a part with its pages; return its offset and size in bytes.

        Raises InvalidArgumentError for less than a byte, ResourceExhaustedError if the arena or the
        machine has too little memory, FailedPreconditionError once closed, and what `grow` raises.
        """
        if byte_size < 1:
            raise InvalidArgumentError(f"an allocation must take a byte or more, got {byte_size}")
        with self._lock:
            memory = self._mapped()
            offset, size = self._parts.allocate(byte_size)
            before, end = self._backed, offset + size
            try:
                if end > before:
                    self._drop_strays()
                    self._grow(end - before)
                    self._backed = end
            except BaseException:
                self._parts.release(offset)
                raise
            self._idle_since = None
            self._users[offset] = 1
        try:
            if end > before:
                _populate(memory, self._descriptor, before, end - before)
        except OSError as error:
            self._leave(offset, free=True)
            raise ResourceExhaustedError(
                f"the machine must have memory to share, got none for {size} bytes: "
                f"{error.strerror}"
            ) from error
        self._leave(offset)
        return offset, size

    def free(self, offset: int) -> None:
        """Free a part once no caller uses it; NotFoundError if there is none."""
        with self._lock:
            self._mapped()
            self._size(offset)
            self._freed.add(offset)
            self._release_if_unused(offset)

    def size(self, offset: int) -> int:
        """Return the size of a part in bytes; NotFoundError if none begins at `offset`."""
        with self._lock:
            return self._size(offset)

    @contextlib.contextmanager
    def using(self, offset: int, byte_size: int) -> Iterator[Array]:
        """The first bytes of a part, uint8[byte_size], which stays allocated for the block.

        The client may change them at any time. Raises NotFoundError if no part begins at `offset`,
        InvalidArgumentError if it is shorter, FailedPreconditionError once closed.
        """
        with self._lock:
            memory = self._mapped()
            size = self._size(offset)
            if byte_size > size:
                raise InvalidArgumentError(
                    f"a value must fit into its allocation, got {byte_size} bytes for the "
                    f"{size} at offset {offset}"
                )
            self._users[offset] = self._users.get(offset, 0) + 1
        try:
            yield memory[offset : offset + byte_size]
        finally:
            self._leave(offset)

    def warm(self, byte_size: int) -> None:
        """Back the first bytes with memory; raises OSError and what `grow` raises."""
        size = min(byte_size, self.capacity)
        with self._lock:
            memory = self._mapped()
            before = self._backed
            if size <= before:
                return
            self._grow(size - before)
            self._backed = size
        _populate(memory, self._descriptor, before, size - before)

    def duplicate(self) -> int:
        """A descriptor of the file for the client, to be closed by the caller.

        Raises FailedPreconditionError once closed, OSError if there are too many.
        """
        with self._lock:
            self._mapped()
            return os.dup(self._descriptor)

    def trim(self, kept_bytes: int, *, blocking: bool = True) -> None:
        """Release memory beyond the first `kept_bytes`, if no part is allocated.

        Without `blocking` nothing happens while another thread allocates or frees.
        """
        if not self._lock.acquire(blocking):
            return
        try:
            surplus = self._backed - kept_bytes
            if self._memory is not None and not len(self._parts) and surplus > 0:
                _discard(self._descriptor, kept_bytes, surplus)
                self._backed = kept_bytes
                self._shrink(surplus)
        finally:
            self._lock.release()

    def close(self) -> None:
        """Release everything; arrays of its memory stay valid while they are referenced."""
        with self._lock:
            if self._memory is None:
                return
            self._memory = None
            self._shrink(self._backed)
            self._backed = self.stray_bytes = 0
            if not self._users:
                os.close(self._descriptor)

    def _mapped(self) -> Array:
        if self._memory is None:
            raise FailedPreconditionError(
                "a session must be connected to its shared memory, got one whose connection ended",
                hint="Connect to the socket again, or transfer in chunks.",
            )
        return self._memory

    def _size(self, offset: int) -> int:
        """The size of a part that was not freed; raises NotFoundError."""
        return self._parts.size(_NO_PART if offset in self._freed else offset)

    def _leave(self, offset: int, *, free: bool = False) -> None:
        """End a use of a part, and free it if `free`."""
        with self._lock:
            self._users[offset] -= 1
            if free:
                self._freed.add(offset)
            self._release_if_unused(offset)
            if self._memory is None and not self._users:
                os.close(self._descriptor)

    def _release_if_unused(self, offset: int) -> None:
        if self._users.get(offset):
            return
        self._users.pop(offset, None)
        if offset in self._freed:
            self._freed.discard(offset)
            self._parts.release(offset)
            if not len(self._parts):
                self._idle_since = time.monotonic()


def _sealed_file(size: int) -> int:
    descriptor = os.memfd_create("xla-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, size)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _populate(memory: Array, descriptor: int, offset: int, byte_size: int) -> None:
    """Back a part with memory; raises OSError without enough.

    Touching a page without memory would end the process.
    """
    try:
        # Unlike Python's own, functions called through ctypes release the interpreter lock.
        _call("madvise", memory.ctypes.data + offset, byte_size, ctypes.c_int(_POPULATE_WRITE))
    except OSError as error:
        if error.errno != errno.EINVAL:  # An older kernel.
            raise
        os.posix_fallocate(descriptor, offset, byte_size)


def _discard(descriptor: int, offset: int, byte_size: int) -> None:
    # A page that cannot be released now is released with the arena.
    with contextlib.suppress(OSError):
        mode = ctypes.c_int(_PUNCH_HOLE_AND_KEEP_SIZE)
        _call("fallocate", ctypes.c_int(descriptor), mode, offset, byte_size)


def _call(name: str, *arguments: "int | ctypes.c_int") -> None:
    """Call a function of the C library; plain numbers are as wide as an address."""
    function = getattr(_C_LIBRARY, name)
    wide = [ctypes.c_ssize_t(each) if isinstance(each, int) else each for each in arguments]
    if function(*wide) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


_C_LIBRARY = ctypes.CDLL(None, use_errno=True)
