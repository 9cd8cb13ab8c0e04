"""Values of the cancellation flag, an int64 that native code polls, and how native code waits.

A thread sleeps in Linux's system call futex while the flag is WAIT. On other systems, and on
processors whose number of that call is not known here, the flag is never WAIT.
"""

import ctypes
import platform

GO, STOP, WAIT = 0, 1, 2
"""Values of the flag. Native code that has waited reads it again, and waits while it is WAIT."""

HELPED = 1
"""Index of the int64, counted from the flag, that has the processor time of helper threads for the
run, in nanoseconds."""

FLAG_WORDS = 2
"""Number of int64 at the flag's address."""

_NUMBERS = {"x86_64": 202, "aarch64": 98, "riscv64": 98}

FUTEX = _NUMBERS.get(platform.machine(), 0) if platform.system() == "Linux" else 0
"""The number of the system call; 0 where native code does not wait."""

FUTEX_WAIT, FUTEX_WAKE = 128, 129
"""Its operations, for words that no other process sees."""

_ALL = 2**31 - 1
"""Largest number of waiters that FUTEX_WAKE takes: it wakes all."""

if FUTEX:
    # It never blocks, so Python's lock is kept.
    _syscall = ctypes.PyDLL(None).syscall
    _syscall.argtypes = [ctypes.c_long, ctypes.c_void_p, ctypes.c_long, ctypes.c_long]


def wake(flag: "ctypes.Array[ctypes.c_int64]") -> None:
    """Wake native code that waits, which then reads its flag again."""
    if FUTEX:
        _syscall(FUTEX, ctypes.addressof(flag), FUTEX_WAKE, _ALL)
