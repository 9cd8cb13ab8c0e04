"""Memory of results and arenas: aligned blocks, reused when no object holds them any more."""

import threading
from typing import Any

import numpy as np

from xla_contract.types.shape import Shape
from xla_server.buffers.assignment import ALIGNMENT

Array = Any

MAX_FREE_BYTES = 256 << 20
"""Upper bound of the free blocks that a pool keeps for reuse, in bytes; further ones are freed."""

_STEPS = 8
"""Number of block sizes between two powers of two: rounding up wastes an eighth at most."""


class MemoryBlock:
    """Memory at a multiple of ALIGNMENT bytes, which returns to its pool when the object is freed.

    Arrays made from the block keep it alive.
    """

    __slots__ = ("__weakref__", "_memory", "_pool", "address", "size")

    def __init__(self, pool: "BlockPool", memory: Array, address: int, size: int) -> None:
        self.address = address
        self.size = size
        self._memory = memory
        self._pool = pool

    def __del__(self) -> None:
        self._pool.release(self._memory, self.address, self.size)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "typestr": "|u1",
            "shape": (self.size,),
            "data": (self.address, False),
        }

    def array(self, shape: Shape) -> Array:
        """Return the dense row-major array of a shape at the block's start."""
        dtype = shape.element_type.dtype
        count = shape.element_count * dtype.itemsize
        return np.asarray(self)[:count].view(dtype).reshape(shape.dimensions)


class BlockPool:
    """A pool of blocks.

    Thread-safe. The content of a block is undefined until its user has written it.
    """

    def __init__(self, max_free_bytes: int = MAX_FREE_BYTES) -> None:
        self._limit = max_free_bytes
        self._free: dict[int, list[tuple[Array, int]]] = {}
        self._lock = threading.Lock()
        self.free_bytes = 0
        """Bytes of free blocks."""

    def allocate(self, size: int) -> MemoryBlock:
        """Return a block of `size` bytes, a size that `block_size` returned."""
        with self._lock:
            free = self._free.get(size)
            if free:
                self.free_bytes -= size
                memory, address = free.pop()
                return MemoryBlock(self, memory, address, size)
        memory = np.empty(size + ALIGNMENT, np.uint8)
        start = memory.ctypes.data
        return MemoryBlock(self, memory, start + -start % ALIGNMENT, size)

    def release(self, memory: Array, address: int, size: int) -> None:
        """Keep a freed block's memory for reuse if it fits into the limit."""
        # A garbage collection may free a block while this thread holds the lock.
        if not self._lock.acquire(False):
            return
        try:
            free_bytes = self.free_bytes + size
            if free_bytes <= self._limit:
                self.free_bytes = free_bytes
                if size in self._free:
                    self._free[size].append((memory, address))
                else:
                    self._free[size] = [(memory, address)]
            elif size <= self._limit:
                # Blocks of sizes no longer requested give way to the one just used.
                self._free = {size: [(memory, address)]}
                self.free_bytes = size
        finally:
            self._lock.release()


def block_size(size: int) -> int:
    """Return the size of the blocks that serve requests of `size` bytes."""
    step = max(ALIGNMENT, (1 << max(size - 1, 0).bit_length()) // (2 * _STEPS))
    return max(ALIGNMENT, -(-size // step) * step)
