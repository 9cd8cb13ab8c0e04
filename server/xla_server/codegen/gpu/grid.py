"""Kernels with the threads that execute them on a GPU."""

import dataclasses

from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.target.gpu.properties import BLOCK_THREADS, MAX_BLOCK_THREADS, MAX_BLOCKS


@dataclasses.dataclass(frozen=True, slots=True)
class GridKernel:
    """A kernel whose work items are threads, in blocks of `threads`.

    Implements xla_server.buffers.code.KernelCode. The last block has threads without a work item.
    Indices of elements are computed in
    `index_bits`. Raises ValueError for more threads than a block may have, or more blocks than a
    grid may.
    """

    kernel: Kernel
    threads: int = BLOCK_THREADS
    index_bits: int = 32

    def __post_init__(self) -> None:
        if not 0 < self.threads <= MAX_BLOCK_THREADS:
            raise ValueError(
                f"a block must have 1 to {MAX_BLOCK_THREADS} threads, got {self.threads}"
            )
        if self.blocks > MAX_BLOCKS:
            raise ValueError(f"a grid must have at most {MAX_BLOCKS} blocks, got {self.blocks}")

    @property
    def blocks(self) -> int:
        """Blocks of a launch."""
        return -(-self.kernel.items // self.threads)

    @property
    def text(self) -> str:
        """The kernel as numba source, behind its launch."""
        return f"# {self._launch}\n{self.kernel.text}"

    @property
    def key(self) -> str:
        """The text, and everything else that the machine code depends on.

        Threads compare their numbers with those of the work items, which the source does not have.
        """
        items = [(part.first, part.items) for part in self.kernel.parts]
        return f"# {self._launch}, work items {items}\n{self.kernel.key}"

    @property
    def _launch(self) -> str:
        width = f"indices of {self.index_bits} bits"
        return f"{self.blocks} blocks of {self.threads} threads, {width}"


def index_bits(elements: int) -> int:
    """Return the bits in which indices of `elements` elements are computed.

    Registers of a GPU have 32 bits: an addition of 64 bits takes two instructions, a division many.
    """
    return 32 if elements < 1 << 31 else 64
