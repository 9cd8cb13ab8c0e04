"""Processor modes in which subnormal numbers are zeros, as in programs of XLA's CPU backend.

The mode belongs to the thread. numpy has no switch for it. It is set through the C library's
floating-point environment, if the C library and the processor are known. Elsewhere sums, products
and quotients keep subnormal numbers, as in IEEE 754.
"""

import ctypes
import platform
import sys
from typing import Any

_WORDS = 8
"""32-bit words of glibc's fenv_t, on x86-64 the larger."""

_Environment = ctypes.c_uint32 * _WORDS

_FLUSH: dict[str, tuple[int, int]] = {
    # Index of the control register in fenv_t, and its bits: flush to zero, denormals are zero.
    "x86_64": (7, 0x8040),
    "aarch64": (0, 1 << 24),
}


class _Mode:
    """A mode of the thread's arithmetic, until the block ends. For one block."""

    __slots__ = ("_before", "_flushes")

    def __init__(self, *, flushes: bool) -> None:
        self._flushes = flushes
        self._before: Any = None

    def __enter__(self) -> None:
        if _C is not None:
            before = self._before = _Environment()
            _C.fegetenv(before)
            inside = _Environment.from_buffer_copy(before)
            inside[_WORD] = inside[_WORD] | _BITS if self._flushes else inside[_WORD] & ~_BITS
            _C.fesetenv(inside)

    def __exit__(self, *_: object) -> None:
        if _C is not None:
            _C.fesetenv(self._before)


def subnormals_as_zeros() -> _Mode:
    """Until the block ends, arithmetic of this thread neither reads nor makes subnormal numbers."""
    return _Mode(flushes=True)


def subnormals_kept() -> _Mode:
    """Until the block ends, arithmetic of this thread is that of IEEE 754."""
    return _Mode(flushes=False)


def _library() -> ctypes.PyDLL | None:
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return None
    # Its functions are too short to give Python's lock away meanwhile.
    return ctypes.PyDLL("libm.so.6") if platform.machine() in _FLUSH else None


_C = _library()
_WORD, _BITS = _FLUSH.get(platform.machine(), (0, 0))
