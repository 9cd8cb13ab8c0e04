"""The routines that kernels call, on the memory of the walker. Operands are integers of Python."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.example_platform.memory import Arrays


def _copy_bytes(arrays: Arrays, target: int, source: int, count: int) -> None:
    arrays.at(target, count)[:] = arrays.at(source, count)


def _clear_bytes(arrays: Arrays, target: int, count: int) -> None:
    arrays.at(target, count)[:] = 0


def _fill(kind: Any, arrays: Arrays, target: int, count: int, bits: int) -> None:
    """Set `count` elements to the low bits of an integer."""
    size = np.dtype(kind).itemsize
    low = bits & ((1 << (8 * size)) - 1)
    arrays.at(target, size * count).view(kind)[:] = low


def _join(kind: Any, arrays: Arrays, outside: int, inside: int, count: int) -> None:
    """Add sums to those outside, and begin them anew with -0."""
    size = np.dtype(kind).itemsize
    sums = arrays.at(inside, size * count).view(kind)
    arrays.at(outside, size * count).view(kind)[:] += sums
    sums[:] = -0.0


ROUTINES: Mapping[str, Callable[..., None]] = {
    "copy_bytes": _copy_bytes,
    "clear_bytes": _clear_bytes,
    "fill_32": functools.partial(_fill, np.uint32),
    "fill_64": functools.partial(_fill, np.uint64),
    "join_f32": functools.partial(_join, np.float32),
    "join_f64": functools.partial(_join, np.float64),
}
"""Every routine by its name in kernels."""
