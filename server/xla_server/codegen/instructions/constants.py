"""Constants in a kernel's text: floats by their bits, everything by its type."""

from collections.abc import Callable
from typing import Any

import numpy as np


def _f32(bits: int) -> Any:
    return np.uint32(bits).view(np.float32)


def _f64(bits: int) -> Any:
    return np.uint64(bits).view(np.float64)


def _c64(real: int, imaginary: int) -> Any:
    return np.array([_f32(real), _f32(imaginary)]).view(np.complex64)[0]


def _c128(real: int, imaginary: int) -> Any:
    return np.array([_f64(real), _f64(imaginary)]).view(np.complex128)[0]


CONSTANTS: dict[str, Callable[..., Any]] = {
    "b1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "f32": _f32,
    "f64": _f64,
    "c64": _c64,
    "c128": _c128,
}
"""Constructors of the constants of each computed type, called when the kernel's text is read."""
