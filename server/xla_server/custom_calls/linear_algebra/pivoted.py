"""QR factors with columns exchanged: LAPACK's geqp3, with a choice of leading columns.

Semantics: geqp3 as JAX's typed FFI calls it. scipy's wrapper takes no pivots, so the routine is
called at the address that scipy publishes for Cython.
"""

import ctypes
import functools
from typing import Any

import numpy as np

from xla_contract.types.element_type import ElementType
from xla_server.custom_calls.linear_algebra.lapack import PREFIX, queried, routine_address


@functools.cache
def _geqp3(element: ElementType) -> Any:
    """geqp3(m, n, a, lda, jpvt, tau, work, lwork, [rwork,] info), everything by address."""
    # The server listens before scipy is loaded.
    from scipy.linalg import cython_lapack

    count = 10 if element.is_complex else 9
    signature = ctypes.CFUNCTYPE(None, *(ctypes.c_void_p,) * count)
    return signature(routine_address(cython_lapack, f"{PREFIX[element]}geqp3"))


def factored(element: ElementType, matrix: Any, pivots: Any) -> tuple[Any, Any, Any]:
    """(R and the reflectors, the columns' order counted from 1, the reflectors' factors).

    `matrix` is [m, n] with at least one element. Columns whose pivot is not 0 are moved to the
    front and stay there; the others are free to move.
    """
    rows, columns = matrix.shape
    packed = np.array(matrix, element.dtype, order="F")
    order = np.array(pivots, np.int32)
    factors = np.zeros(min(rows, columns), element.dtype)
    status = np.zeros(1, np.int32)
    reals = [np.zeros(2 * columns, element.real_component.dtype)] if element.is_complex else []

    def run(workspace: Any, length: int) -> None:
        numbers = [np.array([number], np.int32) for number in (rows, columns, rows, length)]
        m, n, leading, size = numbers
        arguments = [m, n, packed, leading, order, factors, workspace, size, *reals, status]
        _geqp3(element)(*(argument.ctypes.data for argument in arguments))

    answer = np.zeros(1, element.dtype)
    run(answer, -1)
    (length,) = queried((answer[0], 0))
    run(np.zeros(length, element.dtype), length)
    return packed, order, factors
