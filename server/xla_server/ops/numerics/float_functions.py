"""Functions of real floats where XLA's CPU backend has another meaning than numpy."""

import numpy as np

from xla_server.ops.numerics.numeric import Array, flushed


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
    """Round to the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x).astype(x.dtype), whole)


def rsqrt(x: Array) -> Array:
    """1 / sqrt(x)."""
    return np.asarray(np.reciprocal(np.sqrt(x)))


def erf(x: Array) -> Array:
    """The error function."""
    # The server listens before scipy is loaded.
    from scipy import special

    return np.asarray(special.erf(x))


def logistic(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return np.asarray(np.reciprocal(1 + np.exp(-x)))


def remainder(x: Array, y: Array) -> Array:
    """C's fmod; NaN where y is subnormal, as a comparison with zero takes it for that."""
    return np.asarray(np.fmod(x, flushed(y)))


def power(x: Array, y: Array) -> Array:
    """x ** y as C's pow has it.

    numpy takes roots where an exponent of 0.5 is broadcast: those of -0 and -inf are others.
    """
    roots = y == 0.5
    if np.any(roots):
        x = np.where(roots, np.where(np.isneginf(x), -x, x) + x.dtype.type(0), x)
    return np.asarray(np.power(x, y))
