"""Memory of a device that nothing uses, kept for those who ask for as much.

The piece that was kept last is taken first. So results and temporary values of a program that runs
again have the addresses of before, which graphs have in them, without a call of the driver.
"""

import threading

MAX_BYTES = 256 << 20
"""Bytes that are kept at most: programs with larger arrays take far longer than a launch."""

MIN_BYTES = 64 << 10
"""Bytes that a smaller piece counts, so that the number of pieces is bounded."""


class KeptMemory:
    """The pieces, by their size in bytes. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pieces: dict[int, list[int]] = {}
        """Addresses by size; the sizes that were used longest ago come first."""
        self._counted = 0

    @property
    def byte_size(self) -> int:
        """The bytes of all pieces."""
        with self._lock:
            return sum(size * len(addresses) for size, addresses in self._pieces.items())

    def take(self, byte_size: int) -> int | None:
        """Take a kept piece of this size and return its address; None if there is none."""
        with self._lock:
            addresses = self._pieces.pop(byte_size, None)
            if addresses is None:
                return None
            self._pieces[byte_size] = addresses
            return self._taken(byte_size, -1)

    def keep(self, address: int, byte_size: int) -> list[int]:
        """Keep a piece that nothing uses; return those that are too many now, which are not."""
        if byte_size > MAX_BYTES:
            return [address]
        with self._lock:
            self._pieces[byte_size] = [*self._pieces.pop(byte_size, ()), address]
            self._counted += max(byte_size, MIN_BYTES)
            many = []
            while self._counted > MAX_BYTES:
                many.append(self._taken(next(iter(self._pieces)), 0))
            return many

    def clear(self) -> list[int]:
        """Keep none any more, and return those that there were."""
        with self._lock:
            found = [each for addresses in self._pieces.values() for each in addresses]
            self._pieces.clear()
            self._counted = 0
            return found

    def _taken(self, byte_size: int, place: int) -> int:
        addresses = self._pieces[byte_size]
        address = addresses.pop(place)
        if not addresses:
            del self._pieces[byte_size]
        self._counted -= max(byte_size, MIN_BYTES)
        return address
