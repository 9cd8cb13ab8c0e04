"""cuSOLVER's dense routines: what is used of them."""

import functools
import itertools
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from tests.cuda_twin.bindings.cublas import FillMode, Operation, SideMode
from tests.cuda_twin.bindings.memory import elements, matrix, table
from tests.cuda_twin.libraries import lapack

ROOM = 7
"""Elements that a factorisation works in."""

_handles = itertools.count(1)


def create() -> int:
    """Return a handle."""
    return next(_handles)


def set_stream(handle: int, stream: int) -> None:
    """Do nothing: calls are done at once."""


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
    _fill(dtype, workspace, lwork)
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


def _room(dtype: Any, *given: Any) -> int:
    return ROOM


def _fill(dtype: Any, workspace: int, lwork: int = ROOM) -> None:
    """Let a workspace be undefined afterwards."""
    if lwork != ROOM:
        raise ValueError(f"a workspace must have {ROOM} elements, got {lwork}")
    elements(workspace, dtype, ROOM)[:] = np.nan


def _state(info: int, status: int) -> None:
    elements(info, np.int32, 1)[0] = status


def _getrf(
    dtype: Any, handle: int, m: int, n: int, a: int, lda: int, work: int, ipiv: int, info: int
) -> None:
    _fill(dtype, work)
    pivots = elements(ipiv, np.int32, min(m, n))
    _state(info, lapack.getrf(matrix(a, dtype, m, n, lda), pivots))


def _geqrf(dtype: Any, handle: int, m: int, n: int, a: int, lda: int, tau: int, *rest: int) -> None:
    *work, info = rest
    _fill(dtype, *work)
    _state(info, lapack.geqrf(matrix(a, dtype, m, n, lda), elements(tau, dtype, min(m, n))))


def _orgqr(
    dtype: Any, handle: int, m: int, n: int, k: int, a: int, lda: int, tau: int, *rest: int
) -> None:
    *work, info = rest
    _fill(dtype, *work)
    _state(info, lapack.orgqr(matrix(a, dtype, m, n, lda), elements(tau, dtype, k)))


def _ormqr(
    dtype: Any, handle: int, side: int, form: int, m: int, n: int, k: int, *given: int
) -> None:
    a, lda, tau, c, ldc, *work, info = given
    _fill(dtype, *work)
    is_left = side == SideMode.LEFT
    reflectors = matrix(a, dtype, m if is_left else n, k, lda)
    forms = "L" if is_left else "R", Operation(form).name
    others = matrix(c, dtype, m, n, ldc)
    _state(info, lapack.ormqr(*forms, reflectors, elements(tau, dtype, k), others))


def _syevd(
    dtype: Any, handle: int, jobz: int, uplo: int, n: int, a: int, lda: int, w: int, *rest: int
) -> None:
    *work, info = rest
    _fill(dtype, *work)
    forms = "NV"[jobz], "L" if uplo == FillMode.LOWER else "U"
    values = elements(w, np.zeros(0, dtype).real.dtype, n)
    _state(info, lapack.syevd(*forms, matrix(a, dtype, n, n, lda), values))


def _gesvd(dtype: Any, handle: int, jobu: int, jobvt: int, m: int, n: int, *given: int) -> None:
    a, lda, s, u, ldu, vt, ldvt, work, lwork, rwork, info = given
    if jobu != jobvt or rwork:
        raise ValueError("vectors must be asked for on both sides, without values that are left")
    _fill(dtype, work, lwork)
    mode, vectors = chr(jobu), list[Any]()
    if mode != "N":
        left = matrix(u, dtype, m, m if mode == "A" else n, ldu)
        vectors = [left, matrix(vt, dtype, n, n, ldvt)]
    values = elements(s, np.zeros(0, dtype).real.dtype, n)
    _state(info, lapack.gesvd(mode, matrix(a, dtype, m, n, lda), values, *vectors))


SMALL = 32
"""Rows and columns of the largest matrix of a batch that Jacobi's method takes."""

_EIGEN, _SINGULAR = -1, -2


def create_syevj_info() -> int:
    """Return options of eigenvalues."""
    return _EIGEN


def create_gesvdj_info() -> int:
    """Return options of singular values."""
    return _SINGULAR


def _syevj_batched(
    dtype: Any, handle: int, jobz: int, uplo: int, n: int, a: int, lda: int, w: int, *rest: int
) -> None:
    *work, info, params, batch_size = rest
    if params != _EIGEN:
        raise ValueError("options must be those of eigenvalues")
    _fill(dtype, *work)
    forms = "NV"[jobz], "L" if uplo == FillMode.LOWER else "U"
    real = np.zeros(0, dtype).real.dtype
    for number in range(batch_size):
        given = matrix(a + number * lda * n * np.dtype(dtype).itemsize, dtype, n, n, lda)
        values = elements(w + number * n * real.itemsize, real, n)
        _state(info + 4 * number, lapack.syevd(*forms, given, values))


def _gesvdj_batched(dtype: Any, handle: int, jobz: int, m: int, n: int, *given: int) -> None:
    a, lda, s, u, ldu, v, ldv, *work, info, params, batch_size = given
    if params != _SINGULAR or max(m, n) > SMALL:
        raise ValueError(f"a matrix must be small, got {m} rows, {n} columns")
    if not (u and v):
        raise ValueError("vectors must have memory even where none are computed")
    _fill(dtype, *work)
    for place, count in ((u, m), (v, n)):
        elements(place, dtype, batch_size * count**2)[:] = np.nan
    real, width = np.zeros(0, dtype).real.dtype, np.dtype(dtype).itemsize
    for number in range(batch_size):
        vectors = [
            matrix(place + number * ahead * count * width, dtype, count, count, ahead)
            for place, ahead, count in ((u, ldu, m), (v, ldv, n))
            if jobz
        ]
        of = matrix(a + number * lda * n * width, dtype, m, n, lda)
        values = elements(s + number * min(m, n) * real.itemsize, real, min(m, n))
        _state(info + 4 * number, lapack.gesvd("NA"[jobz], of, values, *vectors))
        for each in vectors[1:]:
            each[:] = each.conj().T.copy()


_NAMES = {"potrf": _potrf, "getrf": _getrf, "geqrf": _geqrf, "gesvd": _gesvd}
_REAL = {"orgqr": _orgqr, "ormqr": _ormqr, "syevd": _syevd}
_REAL_BATCHES = {"syevj": _syevj_batched, "gesvdj": _gesvdj_batched}
_COMPLEX_BATCHES = {"heevj": _syevj_batched, "gesvdj": _gesvdj_batched}
_COMPLEX = {"ungqr": _orgqr, "unmqr": _ormqr, "heevd": _syevd}

for _letter, _dtype in zip(
    "sdcz", (np.float32, np.float64, np.complex64, np.complex128), strict=True
):
    for _name, _function in (_NAMES | (_COMPLEX if _letter in "cz" else _REAL)).items():
        globals()[f"{_letter}{_name}_buffer_size"] = functools.partial(_room, _dtype)
        globals()[f"{_letter}{_name}"] = functools.partial(_function, _dtype)
    for _name, _function in (_COMPLEX_BATCHES if _letter in "cz" else _REAL_BATCHES).items():
        globals()[f"{_letter}{_name}_batched_buffer_size"] = functools.partial(_room, _dtype)
        globals()[f"{_letter}{_name}_batched"] = functools.partial(_function, _dtype)
    globals()[f"{_letter}potrf_batched"] = functools.partial(_potrf_batched, _dtype)
