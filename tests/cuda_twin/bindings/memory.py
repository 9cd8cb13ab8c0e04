"""Arrays of the host by their addresses, column-major."""

import ctypes
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided


def elements(address: int, dtype: Any, count: int) -> Any:
    """Return so many elements from an address on."""
    raw = (ctypes.c_byte * (count * np.dtype(dtype).itemsize)).from_address(address)
    return np.frombuffer(raw, np.uint8).view(dtype)


def matrix(address: int, dtype: Any, rows: int, columns: int, ahead: int) -> Any:
    """Return a matrix whose columns lie `ahead` elements apart."""
    if ahead < rows:
        raise ValueError(f"a leading dimension must be at least {rows}, got {ahead}")
    found = elements(address, dtype, (columns - 1) * ahead + rows)
    width = found.dtype.itemsize
    return as_strided(found, (rows, columns), (width, ahead * width))


def scalar(address: int, dtype: Any) -> Any:
    """Return a number of the host."""
    return elements(address, dtype, 1)[0]


def table(address: int, count: int) -> list[int]:
    """Return the addresses in an array of them."""
    return [int(place) for place in elements(address, np.int64, count)]
