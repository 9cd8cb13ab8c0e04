"""LAPACK's routines, which write over matrices; each returns its status. Undefined is NaN."""

from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from xla_server.custom_calls.linear_algebra.lapack import queried, work


def getrf(a: Any, pivots: Any) -> int:
    """L and U over a matrix, and the rows exchanged, counted from 1."""
    a[:], exchanged, info = _routine("getrf", a)(a.copy())
    pivots[:] = exchanged + 1
    return int(info)


def geqrf(a: Any, factors: Any) -> int:
    """R and the reflectors over a matrix, and the reflectors' factors."""
    factor = _routine("geqrf", a)
    a[:], factors[:], _, info = factor(a, lwork=work(factor(a, lwork=-1)))
    return int(info)


def orgqr(a: Any, factors: Any) -> int:
    """The first columns of the product of reflectors, over these."""
    product = _routine("orgqr", a)
    a[:], _, info = product(a, factors, lwork=work(product(a, factors, lwork=-1)))
    return int(info)


def ormqr(side: str, form: str, a: Any, factors: Any, c: Any) -> int:
    """A matrix times the product of reflectors."""
    given = side, form, a, factors, c
    multiply = _routine("ormqr", a)
    c[:], _, info = multiply(*given, work(multiply(*given, -1)))
    return int(info)


def syevd(mode: str, triangle: str, a: Any, values: Any) -> int:
    """Eigenvalues, and eigenvectors over a Hermitian matrix."""
    name = "heevd" if np.iscomplexobj(a) else "syevd"
    options = {"compute_v": int(mode == "V"), "lower": int(triangle == "L")}
    sizes = queried(_routine(f"{name}_lwork", a)(len(a), **options))
    options |= dict(zip(("lwork", "liwork", "lrwork"), sizes, strict=False))
    values[:], vectors, info = _routine(name, a)(a, **options)
    a[:] = vectors if mode == "V" else np.nan
    return int(info)


def gesvd(mode: str, a: Any, values: Any, *vectors: Any) -> int:
    """Singular values, and vectors but for mode N."""
    if a.shape[0] < a.shape[1]:
        raise ValueError(f"matrices must not be wide, got {a.shape}")
    options = {"compute_uv": int(mode != "N"), "full_matrices": int(mode == "A")}
    u, values[:], vt, info = _routine("gesvd", a)(a, **options)
    a[:] = np.nan
    for target, found in zip(vectors, (u, vt), strict=False):
        target[:] = found
    return int(info)


def _routine(name: str, a: Any) -> Any:
    (found,) = get_lapack_funcs((name,), (a,))
    return found
