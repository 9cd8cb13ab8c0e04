"""cuBLAS: what is used of it."""

import enum
import functools
import itertools
from typing import Any

import numpy as np
from scipy.linalg import get_blas_funcs

from tests.cuda_twin.bindings.memory import elements, matrix, scalar, table
from tests.cuda_twin.libraries import lapack


class ComputeType(enum.IntEnum):
    """cublasComputeType_t."""

    COMPUTE_32F = 68
    COMPUTE_64F = 70
    COMPUTE_32I = 72
    COMPUTE_32F_FAST_TF32 = 77


class Operation(enum.IntEnum):
    """cublasOperation_t."""

    N = 0
    T = 1
    C = 2


class SideMode(enum.IntEnum):
    """cublasSideMode_t."""

    LEFT = 0
    RIGHT = 1


class FillMode(enum.IntEnum):
    """cublasFillMode_t."""

    LOWER = 0
    UPPER = 1


class DiagType(enum.IntEnum):
    """cublasDiagType_t."""

    NON_UNIT = 0
    UNIT = 1


class PointerMode(enum.IntEnum):
    """cublasPointerMode_t."""

    HOST = 0
    DEVICE = 1


_handles = itertools.count(1)


def create() -> int:
    """Return a handle."""
    return next(_handles)


def set_stream(handle: int, stream: int) -> None:
    """Do nothing: calls are done at once."""


def set_pointer_mode(handle: int, mode: int) -> None:
    """Check that factors are the host's."""
    assert mode == PointerMode.HOST


def _trsm(
    dtype: Any,
    handle: int,
    side: int,
    uplo: int,
    trans: int,
    diag: int,
    m: int,
    n: int,
    alpha: int,
    a: int,
    lda: int,
    b: int,
    ldb: int,
) -> None:
    order = m if side == SideMode.LEFT else n
    left, right = matrix(a, dtype, order, order, lda), matrix(b, dtype, m, n, ldb)
    (solve,) = get_blas_funcs(("trsm",), (left, right))
    lower = int(uplo == FillMode.LOWER)
    factor = scalar(alpha, dtype)
    right[:] = solve(factor, left, right, side=side, lower=lower, trans_a=trans, diag=diag)


def _trsm_batched(
    dtype: Any,
    handle: int,
    side: int,
    uplo: int,
    trans: int,
    diag: int,
    m: int,
    n: int,
    alpha: int,
    a: int,
    lda: int,
    b: int,
    ldb: int,
    batch_count: int,
) -> None:
    for left, right in zip(table(a, batch_count), table(b, batch_count), strict=True):
        _trsm(dtype, handle, side, uplo, trans, diag, m, n, alpha, left, lda, right, ldb)


strsm, strsm_batched = (functools.partial(f, np.float32) for f in (_trsm, _trsm_batched))
dtrsm, dtrsm_batched = (functools.partial(f, np.float64) for f in (_trsm, _trsm_batched))
ctrsm, ctrsm_batched = (functools.partial(f, np.complex64) for f in (_trsm, _trsm_batched))
ztrsm, ztrsm_batched = (functools.partial(f, np.complex128) for f in (_trsm, _trsm_batched))


def _getrf_batched(
    dtype: Any, handle: int, n: int, a: int, lda: int, p: int, info: int, batch_size: int
) -> None:
    pivots = elements(p, np.int32, n * batch_size).reshape(batch_size, n)
    states = elements(info, np.int32, batch_size)
    for number, place in enumerate(table(a, batch_size)):
        states[number] = lapack.getrf(matrix(place, dtype, n, n, lda), pivots[number])


def _geqrf_batched(
    dtype: Any,
    handle: int,
    m: int,
    n: int,
    aarray: int,
    lda: int,
    tau_array: int,
    info: int,
    batch_size: int,
) -> None:
    elements(info, np.int32, 1)[0] = 0
    for place, tau in zip(table(aarray, batch_size), table(tau_array, batch_size), strict=True):
        lapack.geqrf(matrix(place, dtype, m, n, lda), elements(tau, dtype, min(m, n)))


for _letter, _dtype in zip(
    "sdcz", (np.float32, np.float64, np.complex64, np.complex128), strict=True
):
    globals()[f"{_letter}getrf_batched"] = functools.partial(_getrf_batched, _dtype)
    globals()[f"{_letter}geqrf_batched"] = functools.partial(_geqrf_batched, _dtype)
