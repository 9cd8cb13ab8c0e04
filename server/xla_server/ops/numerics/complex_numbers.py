"""Complex numbers of given parts, and functions of them in more precision."""

from collections.abc import Callable

import numpy as np

from xla_server.ops.numerics.numeric import Array


def from_parts(real: Array, imaginary: Array) -> Array:
    """Complex numbers of these parts; infinities stay in their part."""
    result = np.empty(np.shape(real), np.result_type(real, np.complex64))
    result.real, result.imag = real, imaginary
    return result


def undefined(where: Array, result: Array) -> Array:
    """The result, both of its parts NaN where the predicate holds."""
    return np.where(where, complex(np.nan, np.nan), result)


def precise(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return the function computed in the C library's longest numbers and rounded once."""

    def rounded(z: Array) -> Array:
        return function(z.astype(np.clongdouble)).astype(np.complex128)

    return rounded
