"""Errors of results relative to exact ones, in ULPs."""

from typing import Any

import numpy as np
from numba import njit

Array = Any
PLACES = {"f16": (10, -14), "bf16": (7, -126), "f32": (23, -126), "f64": (52, -1022)}
"""Digits behind the point, and exponent of the smallest normal number, by type."""


def ulps(name: str, result: Array, exact: Array) -> Array:
    """Return the distance of each result from the exact one, in ULPs of that.

    A number that rounds to infinity must be infinite; NaN must meet NaN.
    """
    fraction, smallest = PLACES[name]
    largest = np.ldexp(exact.dtype.type(2) - exact.dtype.type(2) ** (-fraction - 1), -smallest + 1)
    overflown = np.abs(exact) >= largest
    rounded = np.where(overflown, np.copysign(np.inf, exact), exact)
    exponent = np.frexp(np.where(np.isfinite(rounded), rounded, 1))[1] - 1
    unit = np.ldexp(exact.dtype.type(1), np.maximum(exponent, smallest) - fraction)
    with np.errstate(all="ignore"):
        wide = result.astype(exact.dtype)
        error = np.where(wide == rounded, 0, np.abs(wide - rounded) / unit)
    error = np.where(np.isnan(wide) & np.isnan(exact), 0, error)
    error = np.where((wide == 0) & (exact == 0) & (np.signbit(wide) != np.signbit(exact)), 1, error)
    return np.where(np.isnan(error), np.inf, error)


def worst(name: str, result: Array, exact: Array) -> tuple[float, int]:
    """The largest of `ulps`, and where it is; a zero of the wrong sign counts as 1."""
    if exact.dtype == np.float64:
        fraction, smallest = PLACES[name]
        with np.errstate(invalid="ignore"):
            wide = result if name == "f32" else result.astype(np.float64)
        exponents = np.maximum(np.arange(2048) - 1023, smallest)
        places = np.ldexp(1.0, fraction - exponents)
        error, at = _worst(wide, exact, exact.view(np.int64), fraction, smallest, places)
        return float(error), int(at)
    error = ulps(name, result, exact)
    at = int(np.argmax(error))
    return float(error[at]), at


@njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _worst(
    result: Array, exact: Array, bits: Array, fraction: int, smallest: int, units: Array
) -> Any:
    """`worst` for exact values in f64, whose bits are given too.

    `units` are the ULPs in 1, by the stored exponent.
    """
    overflow = 2.0 ** (1 - smallest) * (2.0 - 2.0 ** (-fraction - 1))
    found, place = 0.0, 0
    for k in range(len(exact)):
        value, right = np.float64(result[k]), exact[k]
        if value == right:
            same = np.copysign(1.0, value) == np.copysign(1.0, right)
            error = 0.0 if value != 0 or same else 1.0
        elif np.isnan(right) or np.isnan(value):
            error = 0.0 if np.isnan(right) and np.isnan(value) else np.inf
        elif abs(right) >= overflow:
            error = 0.0 if value == np.copysign(np.inf, right) else np.inf
        else:
            error = abs(value - right) * units[(bits[k] >> 52) & 0x7FF]
        if error > found:
            found, place = error, k
    return found, place
