"""What the word of a cancellation says to native code, and how native code waits for it.

On Linux a thread sleeps in the system call futex as long as the word says so. Elsewhere, and on
processors whose number of that call is not known here, native code is never told to wait.
"""

import ctypes
import platform

GO, STOP, WAIT = 0, 1, 2
"""What the word is. Native code that waited looks again, and again later if it is to wait on."""

_NUMBERS = {"x86_64": 202, "aarch64": 98, "riscv64": 98}

FUTEX = _NUMBERS.get(platform.machine(), 0) if platform.system() == "Linux" else 0
"""The number of the system call; 0 where native code does not wait."""

FUTEX_WAIT, FUTEX_WAKE = 128, 129
"""Its operations, for words that no other process sees."""

_ALL = 2**31 - 1

if FUTEX:
    # It never blocks, so Python's lock is kept.
    _syscall = ctypes.PyDLL(None).syscall
    _syscall.argtypes = [ctypes.c_long, ctypes.c_void_p, ctypes.c_long, ctypes.c_long]


def wake(word: ctypes.c_int64) -> None:
    """Let native code that waits look at its word again."""
    if FUTEX:
        _syscall(FUTEX, ctypes.addressof(word), FUTEX_WAKE, _ALL)
