"""Elementwise functions of real and complex floats where numpy has another meaning or none.

Semantics: XLA's CPU backend. Complex functions get double precision and are rounded after.
"""

import numpy as np

from xla_server.ops.numeric import Array


def sign(x: Array) -> Array:
    """-1, 1, or x itself where it is a zero or NaN."""
    return np.where((x == 0) | np.isnan(x), x, np.sign(x))


def maximum(x: Array, y: Array) -> Array:
    """The larger of each pair, where NaN beats all and 0 beats -0."""
    return np.where((x == 0) & (y == 0), x + y, np.maximum(x, y))


def minimum(x: Array, y: Array) -> Array:
    """The smaller of each pair, where NaN beats all and -0 beats 0."""
    return np.where((x == 0) & (y == 0), -(-x - y), np.minimum(x, y))


def round_away(x: Array) -> Array:
    """To the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x).astype(x.dtype), whole)


def rsqrt(x: Array) -> Array:
    """1 / sqrt(x)."""
    return np.asarray(np.reciprocal(np.sqrt(x)))


def logistic(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return np.asarray(np.reciprocal(1 + np.exp(-x)))


def complex_logistic(z: Array) -> Array:
    """1 / (1 + exp(-z)), written so that large arguments do not meet inf / inf."""
    falling = np.exp(np.where(z.real < 0, z, -z))
    return np.asarray(np.where(z.real < 0, falling, 1) / (1 + falling))


def complex_sign(z: Array) -> Array:
    """z / |z|, and zero at zero."""
    return np.where(z == 0, z, z / np.abs(z))


def complex_log_plus_one(z: Array) -> Array:
    """log(1 + z), exact near zero too."""
    return from_parts(
        np.log1p(z.real * (2 + z.real) + z.imag * z.imag) / 2, np.arctan2(z.imag, 1 + z.real)
    )


def complex_atan2(y: Array, x: Array) -> Array:
    """-i log((x + i y) / sqrt(x x + y y)), the real function continued."""
    return np.asarray(-1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y)))


def from_parts(real: Array, imaginary: Array) -> Array:
    """Complex numbers of these parts; infinities stay in their part."""
    result = np.empty(np.shape(real), np.result_type(real, np.complex64))
    result.real, result.imag = real, imaginary
    return result
