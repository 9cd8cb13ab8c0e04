"""Arrays that end where memory ends: an access behind one ends the process.

An array begins at a multiple of 16 bytes, as buffers of a GPU do, so up to 15 bytes may lie between
its end and that of memory. They have a pattern, and `is_intact` says whether it is still there.
"""

import ctypes
import mmap
from typing import Any

import numpy as np

ALIGNMENT = 16
_FILL = 0xFF
"""Bytes of a NaN of every float, and of -1."""

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Guarded:
    """Memory of so many bytes, filled with a pattern that is a NaN of every float."""

    def __init__(self, byte_size: int) -> None:
        page = mmap.PAGESIZE
        taken = -(-byte_size // ALIGNMENT) * ALIGNMENT
        mapped = -(-taken // page) * page
        self._memory = mmap.mmap(-1, mapped + page)
        whole = (ctypes.c_char * (mapped + page)).from_buffer(self._memory)
        begin = ctypes.addressof(whole)
        if _LIBC.mprotect(begin + mapped, page, 0):
            raise OSError(ctypes.get_errno(), "mprotect")
        self.address = begin + mapped - taken
        everything = np.frombuffer(self._memory, np.uint8, mapped)
        everything[:] = _FILL
        self.bytes = everything[mapped - taken :][:byte_size]
        self._around = everything[: mapped - taken], everything[mapped - taken + byte_size :]

    @property
    def is_intact(self) -> bool:
        """Return whether nothing was stored around the array."""
        return all(bool((part == _FILL).all()) for part in self._around)

    def put(self, array: Any) -> None:
        """Fill the memory with the bytes of an array."""
        self.bytes[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
