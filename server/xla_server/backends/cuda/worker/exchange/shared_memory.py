"""Memory that the server and one worker share: cancellation words, predicates, staging blocks.

Each connection has a cache line: its cancellation flag, then space for a predicate that the worker
reads from the device. Staging blocks for large arrays follow.
"""

import mmap
import os

MAX_CONNECTIONS = 128
"""Most connections of a worker: each has a cache line of the shared memory."""

BLOCK_BYTES = 4 << 20
"""Bytes of a staging block: large enough that a copy takes far longer than a message."""

BLOCKS = 16
"""Staging blocks of a worker: two for each of eight transfers at the same time."""

GO, STOP = 0, 1
"""Values of a cancellation word."""

_LINE = 64
_PREDICATE = 8
"""Bytes of a connection's line, a cache line, and offset of the predicate in it."""

_HEAD_BYTES = MAX_CONNECTIONS * _LINE
SHARED_BYTES = _HEAD_BYTES + BLOCKS * BLOCK_BYTES


class SharedMemory:
    """One process's mapping of the shared memory."""

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, SHARED_BYTES)
        self.view = memoryview(self._map)
        """The whole mapping."""
        self.device_address = 0
        """The device address of the mapping; zero if it is not pinned."""
        self._words = self.view[:_HEAD_BYTES].cast("q")

    def is_stopped(self, connection: int) -> bool:
        """Return whether the run of a connection must stop."""
        return self._words[connection * _LINE // 8] != GO

    def word(self, connection: int) -> int:
        """Return the device's address of a connection's cancellation word; zero without one."""
        return self.device_address and self.device_address + connection * _LINE

    def set_word(self, connection: int, value: int) -> None:
        """Set the cancellation word of a connection to GO or STOP."""
        self._words[connection * _LINE // 8] = value

    def predicate(self, connection: int, byte_size: int) -> memoryview:
        """Return the memory of a predicate of a connection."""
        start = connection * _LINE + _PREDICATE
        return self.view[start : start + byte_size]

    def block(self, offset: int, byte_size: int) -> memoryview:
        """Return bytes within a staging block. Raises ValueError for other ones."""
        if not 0 <= byte_size <= BLOCK_BYTES or offset not in BLOCK_OFFSETS:
            raise ValueError(f"a block must be at its offset, got {byte_size} bytes at {offset}")
        return self.view[offset : offset + byte_size]


BLOCK_OFFSETS = range(_HEAD_BYTES, SHARED_BYTES, BLOCK_BYTES)
"""The offsets of the staging blocks."""


def new_shared_memory() -> int:
    """Return the descriptor of new memory of zeros, without a name in the file system."""
    descriptor = os.memfd_create("xla-worker", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, SHARED_BYTES)
    return descriptor
