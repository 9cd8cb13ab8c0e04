"""Eigenvalues, singular values and reductions to condensed form.

The routines are syevd, geev, gees, gehrd, sytrd and gesdd. Semantics: LAPACK's routines of these
names, called as JAX's typed FFI calls them on CPUs. Results that LAPACK leaves undefined, as
factors that are not requested, are 0 here; the overwritten operand is the operand.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.custom_calls.linear_algebra.batched import (
    MATRIX,
    STATUS,
    BatchedCall,
    Matrices,
    MatrixFunction,
)
from xla_server.custom_calls.linear_algebra.lapack import queried, routine

NOT_FINITE = -4
"""The status JAX's kernels give where LAPACK would not stop on NaN or infinity."""


def hermitian_shapes(call: BatchedCall) -> Shape:
    """(eigenvectors, eigenvalues ascending, status)"""
    call.letter("mode", "VN")
    call.letter("uplo", "LU")
    size = call.square()
    return Shape.tuple_of([call.array(size, size), call.real(size), STATUS])


def hermitian(call: BatchedCall, matrices: Matrices) -> Matrices:
    """Eigenvalues and eigenvectors of a Hermitian matrix, of which the named triangle is read."""
    return hermitian_parts(
        call,
        matrices[0],
        lower=call.letter("uplo", "LU") == "L",
        vectors=call.letter("mode", "VN") == "V",
    )


def hermitian_parts(
    call: BatchedCall, matrix: Any, *, lower: bool, vectors: bool = True
) -> tuple[Any, Any, int]:
    """(eigenvectors or the operand, eigenvalues ascending, status) of a triangle."""
    options = {"compute_v": int(vectors), "lower": int(lower)}
    query = routine(call.element, "syevd_lwork", "heevd_lwork")
    sizes = queried(query(call.rows, **options))
    options |= dict(zip(("lwork", "liwork", "lrwork"), sizes, strict=False))
    values, basis, info = routine(call.element, "syevd", "heevd")(matrix, **options)
    return basis if vectors else matrix, values, info


def general_shapes(call: BatchedCall) -> Shape:
    """(eigenvalues, in parts where real, left and right eigenvectors, status)"""
    call.letter("compute_left", "VN")
    call.letter("compute_right", "VN")
    size = call.square()
    complex_type = call.element if call.element.is_complex else call.element.complex_of
    vectors = Shape.array(complex_type, (size, size))
    values = [call.array(size)] * (1 if call.element.is_complex else 2)
    return Shape.tuple_of([*values, vectors, vectors, STATUS])


def general(call: BatchedCall, matrices: Matrices) -> Matrices:
    """Eigenvectors of a real matrix come in conjugate pairs, made complex here."""
    left, right = (call.letter(name, "VN") == "V" for name in ("compute_left", "compute_right"))
    parts = 1 if call.element.is_complex else 2
    if not np.isfinite(matrices[0]).all():
        return [*[np.nan] * (parts + 2), NOT_FINITE]
    options = {"compute_vl": int(left), "compute_vr": int(right)}
    (lwork,) = queried(routine(call.element, "geev_lwork")(call.rows, **options))
    *values, vl, vr, info = routine(call.element, "geev")(matrices[0], lwork=lwork, **options)
    if not call.element.is_complex:
        vl, vr = (
            _paired(vectors, values[1]) if is_asked else 0
            for vectors, is_asked in ((vl, left), (vr, right))
        )
    return [*values, vl if left else 0, vr if right else 0, info]


def _paired(vectors: Any, imaginary: Any) -> Any:
    """Complex eigenvectors: for a pair LAPACK gives real and imaginary part of the first."""
    paired = vectors.astype(np.result_type(vectors.dtype, np.complex64))
    (first,) = np.nonzero(imaginary > 0)
    paired[:, first] += 1j * vectors[:, first + 1]
    paired[:, first + 1] = paired[:, first].conj()
    return paired


def schur_shapes(call: BatchedCall) -> Shape:
    """(the Schur form, its basis, eigenvalues in parts where real, how many chosen, status)"""
    call.letter("mode", "VN")
    call.letter("sort", "N")
    size = call.square()
    values = [call.array(size)] * (1 if call.element.is_complex else 2)
    return Shape.tuple_of([call.array(size, size), call.array(size, size), *values, STATUS, STATUS])


def schur(call: BatchedCall, matrices: Matrices) -> Matrices:
    """Eigenvalues in the order they are found."""
    vectors = call.letter("mode", "VN") == "V"
    form, chosen, *values, basis, _, info = routine(call.element, "gees")(
        lambda *_: None, matrices[0], compute_v=int(vectors), sort_t=0
    )
    return [form, basis if vectors else 0, *values, chosen, info]


def hessenberg_shapes(call: BatchedCall) -> Shape:
    """(the Hessenberg form and the reflectors, the reflectors' factors, status)"""
    size = call.square()
    low, high = call.integer("low"), call.integer("high")
    call.require(
        size == 0 or 1 <= low <= high <= size,
        f"low {low:.6g} and high {high:.6g} must be in order and count rows from 1",
    )
    return Shape.tuple_of([call.array(size, size), call.array(max(0, size - 1)), STATUS])


def hessenberg(call: BatchedCall, matrices: Matrices) -> Matrices:
    """Hessenberg form of rows and columns low to high; the operand is triangular outside."""
    low, high = call.integer("low") - 1, call.integer("high") - 1
    if call.rows == 1:
        return matrices[0], 0, 0
    (lwork,) = queried(routine(call.element, "gehrd_lwork")(call.rows, lo=low, hi=high))
    form, factors, info = routine(call.element, "gehrd")(matrices[0], lo=low, hi=high, lwork=lwork)
    return form, factors, info


def tridiagonal_shapes(call: BatchedCall) -> Shape:
    """(the reflectors, diagonal, next diagonal, the reflectors' factors, status)"""
    call.letter("uplo", "LU")
    size = call.square()
    less = max(0, size - 1)
    return Shape.tuple_of(
        [call.array(size, size), call.real(size), call.real(less), call.array(less), STATUS]
    )


def tridiagonal(call: BatchedCall, matrices: Matrices) -> Matrices:
    """Tridiagonal form of a Hermitian matrix, of which the named triangle is read."""
    lower = int(call.letter("uplo", "LU") == "L")
    if call.rows == 1:
        return matrices[0], matrices[0][0].real, 0, 0, 0
    (lwork,) = queried(routine(call.element, "sytrd_lwork", "hetrd_lwork")(call.rows, lower=lower))
    results: tuple[Any, ...] = routine(call.element, "sytrd", "hetrd")(
        matrices[0], lower=lower, lwork=lwork
    )
    return results


def singular_shapes(call: BatchedCall) -> Shape:
    """(the operand, singular values descending, left and right vectors in rows, status)

    In mode N vectors are not written and may be declared in either size.
    """
    mode = call.letter("mode", "ASN")
    rows, columns, smaller = call.rows, call.columns, call.smaller
    reduced = [call.array(rows, smaller), call.array(smaller, columns)]
    full = [call.array(rows, rows), call.array(columns, columns)]
    parts = call.declared.tuple_shapes
    is_reduced = mode == "S"
    if mode == "N" and len(parts) == 5:
        is_reduced = (
            parts[2].dimensions[-2:] == reduced[0].dimensions
            and parts[3].dimensions[-2:] == reduced[1].dimensions
        )
    vectors = reduced if is_reduced else full
    return Shape.tuple_of([call.array(rows, columns), call.real(smaller), *vectors, STATUS])


def _singular(name: str) -> Any:
    def compute(call: BatchedCall, matrices: Matrices) -> Matrices:
        mode = call.letter("mode", "ASN")
        options = {"compute_uv": int(mode != "N"), "full_matrices": int(mode == "A")}
        query = routine(call.element, f"{name}_lwork")
        (lwork,) = queried(query(call.rows, call.columns, **options))
        left, values, right, info = routine(call.element, name)(matrices[0], lwork=lwork, **options)
        if mode == "N":
            return matrices[0], values, 0, 0, info
        return matrices[0], values, left, right, info

    return compute


def no_singular(call: BatchedCall, matrices: Matrices) -> Matrices:
    """The vectors of a matrix without elements are those of a basis."""
    rows, columns = call.rows, call.columns
    _, _, left, right, _ = (part.dimensions for part in singular_shapes(call).leaves())
    return matrices[0], 0, np.eye(rows, left[1]), np.eye(right[0], columns), 0


def kernels(element: ElementType) -> Mapping[str, MatrixFunction]:
    """The kernels for one type of matrices, by LAPACK's names without the letter of the type."""
    symmetric = "he" if element.is_complex else "sy"
    rows = {
        f"{symmetric}evd": (hermitian_shapes, hermitian),
        f"{symmetric}trd": (tridiagonal_shapes, tridiagonal),
        "geev": (general_shapes, general),
        "gees": (schur_shapes, schur),
        "gehrd": (hessenberg_shapes, hessenberg),
    }
    found = {name: MatrixFunction((MATRIX,), *row, element) for name, row in rows.items()}
    for name in ("gesdd", "gesvd"):
        found[name] = MatrixFunction(
            (MATRIX,), singular_shapes, _singular(name), element, empty=no_singular
        )
    return found
