"""Settings of the C library's allocator for large messages, and release of its idle memory.

Each copy of a message of megabytes is a block that glibc maps fresh and returns at once, page by
page; keeping such blocks makes transfers two to four times as fast. Kept blocks are returned to the
system once nothing has been transferred for a while. C libraries other than glibc are left alone.
"""

import contextlib
import ctypes
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

LARGE_BYTES = 8 << 20
"""Size of a transfer, in bytes, from which there may be much free memory to release afterwards."""

IDLE_SECONDS = 2.0
"""Seconds without a large transfer after which free memory is released."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Parameters of mallopt, from glibc's malloc.h."""

_POPULATE_WRITE = 23
"""MADV_POPULATE_WRITE of Linux's mman.h."""

_PIECE_BYTES = 1 << 20
"""Bytes that are made resident at a time. Threads that map memory or allocate wait for one piece
meanwhile.
"""

_STATM = Path("/proc/self/statm")
_lock = threading.Lock()
_is_tuned = False


def tune() -> bool:
    """Keep large blocks in the allocator, in a single arena, and return whether it does.

    Call it before threads start: a thread that has an arena of its own keeps it. There is no effect
    with XLA_SERVICE_MALLOC_TUNING=0, without glibc, and on a second call.

    Returns:
        True if this process's allocator is tuned.
    """
    global _is_tuned
    # Importing a client loads as little as can be.
    from xla_host.environment_variables import MALLOC_TUNING

    if MALLOC_TUNING.value() == "0":
        return _is_tuned
    with _lock:
        library = _glibc()
        if library is not None and not _is_tuned:
            library.mallopt(_ARENA_MAX, 1)
            library.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
            # Before 2.35 glibc takes no more than 32 MiB.
            sizes = (1 << 30, 32 << 20)
            _is_tuned = any(library.mallopt(_MMAP_THRESHOLD, size) for size in sizes)
        return _is_tuned


def trim() -> bool:
    """Return free memory to the system; return whether there was any, False without glibc."""
    library = _glibc()
    return library is not None and bool(library.malloc_trim(0))


def allocated(byte_size: int, allocate: Callable[[], T]) -> T:
    """Return the result of `allocate`, fresh memory of `byte_size` bytes.

    If the allocator is tuned and a large block had to extend the heap although there may be enough
    free memory in fragments, the free memory goes back to the system: otherwise both would be
    resident.
    """
    library = _glibc() if _is_tuned and byte_size >= LARGE_BYTES else None
    if library is None:
        return allocate()
    end = library.sbrk(0)
    memory = allocate()
    if library.sbrk(0) > end:
        library.malloc_trim(0)
    return memory


def make_resident(byte_size: int, count: int) -> None:
    """Let the allocator have `count` free blocks of `byte_size` bytes whose pages are in memory.

    Python's lock is released meanwhile. Writing to new memory with the lock held blocks all other
    threads while the system finds and clears each page, four times as long as the copy itself
    takes. This does nothing if `tune` changed nothing, as free memory is not kept then, or before
    Linux 5.14. The blocks are not reserved: another thread may allocate them.
    """
    library = _glibc() if _is_tuned else None
    if library is None:
        return
    page = os.sysconf("SC_PAGE_SIZE")
    blocks = [library.malloc(byte_size) for _ in range(count)]
    for block in filter(None, blocks):
        start, end = block // page * page + page, block + byte_size
        for at in range(start, end, _PIECE_BYTES):
            library.madvise(at, min(_PIECE_BYTES, end - at), _POPULATE_WRITE)
    for block in blocks:
        library.free(block)


def used_bytes() -> int:
    """Return how many bytes of the allocator are in use; 0 if it does not report this."""
    library = _glibc()
    if library is None or not hasattr(library, "mallinfo2"):
        return 0
    info = library.mallinfo2()
    return int(info.uordblks + info.hblkhd)


def anonymous_bytes() -> int:
    """Return how many bytes of anonymous memory are resident; 0 if the system does not report this.

    Pages of files and of shared memory are not counted, as the allocator has none of them.
    """
    try:
        _, resident, shared = (int(field) for field in _STATM.read_text().split()[:3])
    except (OSError, ValueError):  # Not Linux.
        return 0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


class _Mallinfo(ctypes.Structure):
    """The struct mallinfo2 of glibc's malloc.h."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


@functools.cache
def _glibc() -> Any:
    """The C library if it is glibc, else None."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    if not all(hasattr(library, name) for name in ("gnu_get_libc_version", "mallopt")):
        return None
    library.malloc_trim.argtypes = (ctypes.c_size_t,)
    library.malloc.argtypes = (ctypes.c_size_t,)
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = (ctypes.c_void_p,)
    library.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    library.sbrk.argtypes = (ctypes.c_ssize_t,)
    library.sbrk.restype = ctypes.c_size_t
    if hasattr(library, "mallinfo2"):
        library.mallinfo2.restype = _Mallinfo
    return library


class IdleTrimmer:
    """Thread that returns free memory to the system, from the first large transfer or `start` on.

    It calls `release` when no large transfer has ended for `idle_seconds`. It also does when the
    memory that is resident but not in use (`resident` minus `used`) has grown by LARGE_BYTES since
    the last time, because values are freed long after their transfer. Memory in use is not touched,
    so running programs do not matter. Thread-safe.
    """

    def __init__(
        self,
        release: Callable[[], object] = trim,
        used: Callable[[], int] = used_bytes,
        resident: Callable[[], int] = anonymous_bytes,
        *,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._release = release
        self._used = used
        self._resident = resident
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        self._last = 0.0
        self._is_due = False

    def transferred(self, byte_size: int) -> None:
        """Note that a transfer has ended."""
        if byte_size < LARGE_BYTES:
            return
        with self._lock:
            self._last = time.monotonic()
            self._is_due = True
        self.start()

    def start(self) -> None:
        """Start the thread; a second call does nothing."""
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._watch, name="malloc-trim", daemon=True)
                # Where the system refuses it, the next transfer starts it.
                with contextlib.suppress(RuntimeError):
                    thread.start()
                    self._thread = thread

    def close(self) -> None:
        """End the thread, if there is one."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        # Free bytes would not do: pages that were given back are free, too, and a message that
        # comes and goes between two readings leaves as many as before, but resident.
        least = self._resident() - self._used()
        while not self._closed.wait(self._idle_seconds / 2):
            used = self._used()
            unused = self._resident() - used
            least = min(least, unused)
            with self._lock:
                if time.monotonic() - self._last < self._idle_seconds:
                    continue
                is_due, self._is_due = self._is_due, False
            if is_due or unused >= least + LARGE_BYTES:
                self._release()
                # Memory freed during a release may still be resident: it is counted as used here,
                # so that the next round releases it.
                least = self._resident() - max(used, self._used())


_TRIMMER = IdleTrimmer()


def trim_when_idle() -> None:
    """Give memory back from now on whenever much of it is free; for long-lived processes.

    Where `tune` changed nothing, memory goes back by itself.
    """
    if _is_tuned:
        _TRIMMER.start()


def transferred(byte_size: int) -> None:
    """Take note of a transfer of this process that has ended: free memory goes back later.

    Where `tune` changed nothing, memory goes back by itself.
    """
    if _is_tuned:
        _TRIMMER.transferred(byte_size)
