"""Free parts of a region: first fit, in pages."""

import bisect

from xla_contract.errors import NotFoundError, ResourceExhaustedError

PAGE = 4096
"""Bytes in a page: parts begin and end at multiples of it."""

MAX_PARTS = 4096
"""Parts of one region that may be taken at the same time."""


class FreeList:
    """Parts of a region of `capacity` bytes, a multiple of PAGE. Not thread-safe.

    The first gap that is large enough is taken, so the front of the region is used most.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        # The offsets and sizes of gaps in order; neighbours are always joined.
        self._gaps = [(0, capacity)] if capacity else []
        self._allocated: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._allocated)

    @property
    def free_bytes(self) -> int:
        """Bytes in all gaps."""
        return sum(size for _, size in self._gaps)

    @property
    def parts(self) -> dict[int, int]:
        """Offset -> size of the taken parts."""
        return dict(self._allocated)

    def size(self, offset: int) -> int:
        """The bytes of the part that begins at `offset`; raises NotFoundError if none does."""
        size = self._allocated.get(offset)
        if size is None:
            raise NotFoundError(
                f"an offset must be that of an allocation of the session, got {offset}"
            )
        return size

    def allocate(self, byte_size: int) -> tuple[int, int]:
        """The offset and size of a part of at least `byte_size` bytes, which must be positive.

        Raises ResourceExhaustedError when no gap is large enough, and for more than MAX_PARTS.
        """
        if len(self._allocated) >= MAX_PARTS:
            raise ResourceExhaustedError(
                f"shared memory may have {MAX_PARTS} allocations, got one more with "
                f"{len(self._allocated)} there",
                hint="Free allocations, or use them again.",
            )
        size = -(-byte_size // PAGE) * PAGE
        number = next((n for n, (_, gap) in enumerate(self._gaps) if gap >= size), None)
        if number is None:
            raise ResourceExhaustedError(
                f"shared memory of a session may take {self.capacity} bytes, got an allocation of "
                f"{size} bytes with {self.free_bytes} free in {len(self._gaps)} parts",
                hint="Free allocations, or transfer the value in chunks.",
            )
        offset, gap = self._gaps[number]
        self._gaps[number : number + 1] = [(offset + size, gap - size)] if gap > size else []
        self._allocated[offset] = size
        return offset, size

    def release(self, offset: int) -> None:
        """Free the part that begins at `offset`; raises NotFoundError if none does."""
        size = self.size(offset)
        del self._allocated[offset]
        first = end = bisect.bisect_left(self._gaps, (offset, 0))
        if end < len(self._gaps) and self._gaps[end][0] == offset + size:
            size += self._gaps[end][1]
            end += 1
        if first and sum(self._gaps[first - 1]) == offset:
            first -= 1
            offset, size = self._gaps[first][0], self._gaps[first][1] + size
        self._gaps[first:end] = [(offset, size)]
