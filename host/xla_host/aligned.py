"""Arrays whose memory begins at a cache line, which is also the alignment of vectors."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector."""


def aligned_empty(dimensions: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """A new row-major array at a multiple of ALIGNMENT; its content is arbitrary."""
    dtype = np.dtype(dtype)
    size = math.prod(dimensions) * dtype.itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(dimensions)
