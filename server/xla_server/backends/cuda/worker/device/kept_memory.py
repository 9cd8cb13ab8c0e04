"""Cache of free device memory, by size.

The block that was freed last is reused first. So a program that runs again gets the same addresses,
which its graphs contain, without a call of the driver.
"""

import threading

MAX_BYTES = 256 << 20
"""Bound of kept memory, in bytes: programs with larger arrays take far longer than a launch."""

MIN_BYTES = 64 << 10
"""Size that a smaller block counts as, in bytes, so that the number of blocks is bounded."""


class KeptMemory:
    """The free blocks, by their size in bytes. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pieces: dict[int, list[int]] = {}
        """Addresses by size, the least recently used size first."""
        self._counted = 0

    @property
    def byte_size(self) -> int:
        """The bytes of all kept blocks."""
        with self._lock:
            return sum(size * len(addresses) for size, addresses in self._pieces.items())

    def pop(self, byte_size: int) -> int | None:
        """Take a kept block of this size and return its address; None if there is none."""
        with self._lock:
            addresses = self._pieces.pop(byte_size, None)
            if addresses is None:
                return None
            self._pieces[byte_size] = addresses
            return self._pop(byte_size, -1)

    def keep(self, address: int, byte_size: int) -> list[int]:
        """Keep a free block; return the addresses of evicted blocks, for the caller to free."""
        if byte_size > MAX_BYTES:
            return [address]
        with self._lock:
            self._pieces[byte_size] = [*self._pieces.pop(byte_size, ()), address]
            self._counted += max(byte_size, MIN_BYTES)
            many = []
            while self._counted > MAX_BYTES:
                many.append(self._pop(next(iter(self._pieces)), 0))
            return many

    def clear(self) -> list[int]:
        """Evict all blocks and return their addresses."""
        with self._lock:
            found = [each for addresses in self._pieces.values() for each in addresses]
            self._pieces.clear()
            self._counted = 0
            return found

    def _pop(self, byte_size: int, index: int) -> int:
        addresses = self._pieces[byte_size]
        address = addresses.pop(index)
        if not addresses:
            del self._pieces[byte_size]
        self._counted -= max(byte_size, MIN_BYTES)
        return address
