"""Integers in the total order of floats: -NaN < -Inf < ... < -0 < +0 < ... < +Inf < +NaN."""

import numpy as np

from xla_server.ops.numerics.numeric import Array


def total_order_key(floats: Array) -> Array:
    """Return a signed integer of its width for each float laid out as those of IEEE 754."""
    bits = np.ascontiguousarray(floats).view(f"i{floats.dtype.itemsize}").reshape(floats.shape)
    return _flipped(bits)


def from_total_order_key(keys: Array) -> Array:
    """Return the floats of F32 or F64 that have these keys."""
    return np.ascontiguousarray(_flipped(keys)).view(f"f{keys.dtype.itemsize}").reshape(keys.shape)


def _flipped(bits: Array) -> Array:
    # The bits of negative numbers grow with their magnitude; all but the sign are flipped.
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)
