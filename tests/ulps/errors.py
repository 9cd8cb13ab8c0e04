"""How far results are from exact ones, in units in the last place."""

from typing import Any

import numpy as np
from numba import njit

Array = Any
PLACES = {"f16": (10, -14), "bf16": (7, -126), "f32": (23, -126), "f64": (52, -1022)}
"""Of each type the digits behind the point, and the exponent of the smallest normal number."""


def ulps(name: str, result: Array, exact: Array) -> Array:
    """For each result its distance from the exact one, in units in the last place of that.

    What rounds to infinity must be infinite; NaN must meet NaN.
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
    result: Array, exact: Array, bits: Array, fraction: int, smallest: int, places: Array
) -> Any:
    """`worst` for exact values in f64, whose bits are given too.

    `places` are how many last places make 1, by the exponent as it is stored.
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
            error = abs(value - right) * places[(bits[k] >> 52) & 0x7FF]
        if error > found:
            found, place = error, k
    return found, place
