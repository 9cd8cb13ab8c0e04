"""cuSOLVER's dense routines: what is used of them."""

import functools
import itertools
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from tests.cuda_twin.bindings.cublas import FillMode
from tests.cuda_twin.bindings.memory import elements, matrix, table

ROOM = 7
"""Elements that a factorisation works in."""

_handles = itertools.count(1)


def create() -> int:
    """Return a handle."""
    return next(_handles)


def set_stream(handle: int, stream: int) -> None:
    """Do nothing: calls are done at once."""


def _size(dtype: Any, handle: int, uplo: int, n: int, a: int, lda: int) -> int:
    return ROOM


def _potrf(
    dtype: Any,
    handle: int,
    uplo: int,
    n: int,
    a: int,
    lda: int,
    workspace: int,
    lwork: int,
    dev_info: int,
) -> None:
    if lwork != ROOM:
        raise ValueError(f"a workspace must have {ROOM} elements, got {lwork}")
    elements(workspace, dtype, lwork)[:] = np.nan
    _factor(dtype, uplo, n, a, lda, dev_info)


def _factor(dtype: Any, uplo: int, n: int, a: int, lda: int, info: int) -> None:
    given = matrix(a, dtype, n, n, lda)
    (potrf,) = get_lapack_funcs(("potrf",), (given,))
    lower = uplo == FillMode.LOWER
    factor, elements(info, np.int32, 1)[0] = potrf(given, lower=int(lower), clean=0)
    is_kept = np.tri(n, dtype=np.bool_)
    np.copyto(given, factor, where=is_kept if lower else is_kept.T)


def _potrf_batched(
    dtype: Any,
    handle: int,
    uplo: int,
    n: int,
    aarray: int,
    lda: int,
    info_array: int,
    batch_size: int,
) -> None:
    for number, place in enumerate(table(aarray, batch_size)):
        _factor(dtype, uplo, n, place, lda, info_array + 4 * number)


def _of(dtype: Any) -> Any:
    return (functools.partial(f, dtype) for f in (_size, _potrf, _potrf_batched))


spotrf_buffer_size, spotrf, spotrf_batched = _of(np.float32)
dpotrf_buffer_size, dpotrf, dpotrf_batched = _of(np.float64)
cpotrf_buffer_size, cpotrf, cpotrf_batched = _of(np.complex64)
zpotrf_buffer_size, zpotrf, zpotrf_batched = _of(np.complex128)
