"""Arrays whose memory begins where processors like it."""

import math

import numpy as np
import numpy.typing as npt

from xla_contract.types.literal import Array, Literal

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector."""


def aligned_empty(dimensions: tuple[int, ...], dtype: "npt.DTypeLike") -> Array:
    """A new row-major array at a multiple of ALIGNMENT; its content is arbitrary."""
    dtype = np.dtype(dtype)
    size = math.prod(dimensions) * dtype.itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(dimensions)


def with_aligned_elements(literal: Literal) -> Literal:
    """The literal, its arrays copied where elements do not lie at multiples of their size.

    Views of received bytes often do not; numpy is slow on them and other libraries refuse them.
    """
    if literal.shape.is_tuple:
        return Literal.tuple_of([with_aligned_elements(part) for part in literal.elements])
    if not literal.shape.is_array or literal.value.flags.aligned:
        return literal
    array = aligned_empty(literal.shape.dimensions, literal.value.dtype)
    np.copyto(array, literal.value)
    array.flags.writeable = False
    return Literal(literal.shape, array, (), literal.dynamic_sizes)
