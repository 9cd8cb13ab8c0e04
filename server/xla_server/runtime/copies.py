"""Copies of large arrays, whose parts threads share as they share a kernel's work items."""

from xla_server.codegen.instructions.memory import MEMORY
from xla_server.runtime.native import copy_bytes

COPY_BYTES = 1 << 18
"""Bytes of a large array that a thread copies as one work item."""

_word = MEMORY["peek_i64"]


def copy_range(buffers: int, start: int, stop: int) -> None:
    """Bytes start .. stop - 1 of the second buffer to the first. It is called as kernels are."""
    copy_bytes(_word(buffers, 0) + start, _word(buffers, 1) + start, stop - start)
