"""Lowering of LAPACK's calls for eigenvalues, singular values, and reductions to simpler forms.

Semantics: xla_server.custom_calls.linear_algebra.spectral, and targets.portable for Eigh. A
result that LAPACK leaves unset because it found none is zero, as in LAPACK's Python wrappers.
"""

import functools
from collections.abc import Mapping, Sequence

from xla_contract.types.element_type import ElementType
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Branch
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.linear_algebra.matrix_kernel import (
    Argument,
    MatrixCall,
    MatrixKernel,
    basis,
    flag,
    option,
    real,
)
from xla_server.custom_calls.attributes import parse_attributes
from xla_server.custom_calls.linear_algebra.spectral import NOT_FINITE

_S32 = ElementType.S32
_NULL = ir.Index(0)
"""A null address."""


def _hermitian(k: MatrixKernel) -> None:
    """(eigenvectors, eigenvalues ascending, status)"""
    mode = option(k.instruction, "mode")
    vectors = _eigen(k, mode, option(k.instruction, "uplo"), k.write(2))
    if mode == "V":
        k.from_column_major(vectors, 0)
    else:
        k.copy(0, 0)


def _eigh(k: MatrixKernel) -> None:
    """(eigenvectors, eigenvalues ascending); NaN if LAPACK does not converge."""
    is_lower = k.instruction.attributes.opaque.startswith(b"1")
    status = k.status()
    k.from_column_major(_eigen(k, "V", "L" if is_lower else "U", status), 0)
    with Branch(k.body, k.is_failed(status)) as failed, k.within(failed):
        k.fill(k.element, k.write(0), k.rows**2, k.nan)
        k.fill(k.real, k.write(1), k.rows, k.nan)


def _eigen(k: MatrixKernel, mode: str, triangle: str, status: ir.Expression) -> ir.Expression:
    """The eigenvectors in LAPACK's order; eigenvalues go to the second result."""
    n = k.rows
    matrix, values = k.to_column_major(0), k.write(1)
    k.fill(k.real, values, n)
    name, reals = ("heevd", {"rwork": k.real}) if k.element.is_complex else ("syevd", {})
    operands: dict[str, Argument] = {"jobz": mode, "uplo": triangle, "n": n, "a": matrix}
    operands |= {"lda": n, "w": values}
    k.call(name, {**operands, "work": k.element, **reals, "iwork": _S32, "info": status})
    return matrix


def _general(k: MatrixKernel) -> None:
    """(eigenvalues as in `_values`, left and right eigenvectors, status)"""
    n, parts = k.rows, 1 if k.element.is_complex else 2
    modes = option(k.instruction, "compute_left"), option(k.instruction, "compute_right")
    matrix = k.to_column_major(0)
    values = [k.write(number) for number in range(parts)]
    results = [k.write(parts), k.write(parts + 1)]
    status = k.write(parts + 2)
    complex_type = k.element if k.element.is_complex else k.element.complex_of
    finite = k.body.declare("finite", flag(True))
    with k.loop(n * n * (1 if parts == 2 else 2)) as each:
        number = ir.load_at(k.real.text, matrix, each)
        is_finite = ir.condition("is_finite", number)
        k.body.set(finite, ir.condition("bit_and", finite, is_finite))
    # LAPACK would not stop on NaN or infinity.
    branch = Branch(k.body, ir.condition("bit_not", finite))
    with k.within(branch):
        for value in values:
            k.fill(k.element, value, n, k.nan)
        for result in results:
            k.fill(complex_type, result, n * n, k.nan)
        k.store("i32", status, 0, ir.Const(Type.I32, (NOT_FINITE,)))
    with k.within(branch.orelse):
        vectors = [k.workspace(k.element, n * n if mode == "V" else 1) for mode in modes]
        for value in values:
            k.fill(k.element, value, n)
        for vector, mode in zip(vectors, modes, strict=True):
            k.fill(k.element, vector, n * n if mode == "V" else 1)
        reals = {"rwork": k.workspace(k.real, 2 * n)} if k.element.is_complex else {}
        operands: dict[str, Argument] = {"jobvl": modes[0], "jobvr": modes[1], "n": n, "a": matrix}
        operands["lda"] = n
        operands |= _values(values) | {"vl": vectors[0], "ldvl": n, "vr": vectors[1], "ldvr": n}
        k.call("geev", {**operands, "work": k.element, **reals, "info": status})
        for result, vector, mode in zip(results, vectors, modes, strict=True):
            if mode == "N":
                k.fill(complex_type, result, n * n)
            elif k.element.is_complex:
                k.transpose(vector, result, n, n)
            else:
                _pair(k, vector, values[1], result)
    branch.close()


def _values(values: Sequence[ir.Expression]) -> dict[str, Argument]:
    """Return the operands for eigenvalues: real and imaginary parts if the matrix is real."""
    return dict(zip(("wr", "wi") if len(values) > 1 else ("w",), values, strict=True))


def _pair(
    k: MatrixKernel, vectors: ir.Expression, imaginary: ir.Expression, result: ir.Expression
) -> None:
    """Complex eigenvectors: for a pair LAPACK gives real and imaginary part of the first."""
    n, kind = k.rows, k.real.text
    with k.loop(n) as c:
        first, second = (k.body.declare(k.names(name), c) for name in ("first", "second"))
        sign = k.body.declare(k.names("sign"), real(kind, 0))
        part = ir.load_at(kind, imaginary, c)
        with Branch(k.body, ir.condition("gt", part, real(kind, 0))) as body:
            body.set(second, ir.integer_op("minimum", c + 1, n - 1))
            body.set(sign, real(kind, 1))
        with Branch(k.body, ir.condition("lt", part, real(kind, 0))) as body:
            body.set(first, ir.integer_op("maximum", c - 1, 0))
            body.set(sign, real(kind, -1))
        with k.loop(n) as r:
            offset = (r * n + c) * 2
            k.store(kind, result, offset, ir.load_at(kind, vectors, first * n + r))
            other = ir.load_at(kind, vectors, second * n + r)
            k.store(kind, result, offset + 1, ir.Apply("mul", (sign, other), Type(kind)))


def _schur(k: MatrixKernel) -> None:
    """(the Schur form, its basis, eigenvalues as in `_values`, number selected, status)"""
    n, parts = k.rows, 1 if k.element.is_complex else 2
    mode = option(k.instruction, "mode")
    form, basis = k.to_column_major(0), k.workspace(k.element, n * n if mode == "V" else 1)
    values = [k.write(2 + number) for number in range(parts)]
    chosen, status = k.write(2 + parts), k.write(3 + parts)
    for value in values:
        k.fill(k.element, value, n)
    reals = {"rwork": k.workspace(k.real, n)} if k.element.is_complex else {}
    # gees selects no eigenvalues here, so it gets neither a function nor its workspace.
    operands: dict[str, Argument] = {"jobvs": mode, "sort": "N", "select": _NULL, "n": n}
    operands |= {"a": form, "lda": n, "sdim": chosen} | _values(values) | {"vs": basis, "ldvs": n}
    k.call("gees", {**operands, "work": k.element, **reals, "bwork": _NULL, "info": status})
    k.from_column_major(form, 0)
    if mode == "V":
        k.from_column_major(basis, 1)
    else:
        k.fill(k.element, k.write(1), n * n)


def _hessenberg(k: MatrixKernel) -> None:
    """(the Hessenberg form and the reflectors, the reflectors' factors, status)"""
    n, attributes = k.rows, parse_attributes(k.instruction.attributes.opaque)
    low, high = (attributes[name] for name in ("low", "high"))
    assert isinstance(low, int)
    assert isinstance(high, int)
    form = k.to_column_major(0)
    operands = {"n": n, "ilo": low, "ihi": high, "a": form, "lda": n}
    k.call("gehrd", {**operands, "tau": k.write(1), "work": k.element, "info": k.write(2)})
    k.from_column_major(form, 0)


def _tridiagonal(k: MatrixKernel) -> None:
    """(the reflectors, diagonal, next diagonal, the reflectors' factors, status)"""
    n, form = k.rows, k.to_column_major(0)
    name = "hetrd" if k.element.is_complex else "sytrd"
    triangle = option(k.instruction, "uplo")
    operands: dict[str, Argument] = {"uplo": triangle, "n": n, "a": form, "lda": n}
    results = {"d": k.write(1), "e": k.write(2), "tau": k.write(3)}
    k.call(name, {**operands, **results, "work": k.element, "info": k.write(4)})
    k.from_column_major(form, 0)


def _singular(k: MatrixKernel, *, name: str) -> None:
    """(the operand, singular values descending, left and right vectors in rows, status)"""
    mode = option(k.instruction, "mode")
    m, n = k.core
    less, more = sorted(k.core)
    matrix, values, status = k.to_column_major(0), k.write(1), k.write(4)
    left, right = (k.instruction.shape.tuple_shapes[number].dimensions[-2:] for number in (2, 3))
    sizes = [left[0] * left[1], right[0] * right[1]] if mode != "N" else [1, 1]
    vectors = [k.workspace(k.element, size) for size in sizes]
    for vector, size in zip(vectors, sizes, strict=True):
        k.fill(k.element, vector, size)
    k.fill(k.real, values, less)
    operands: dict[str, Argument] = {"m": m, "n": n, "a": matrix, "lda": m, "s": values}
    operands |= {"u": vectors[0], "ldu": m, "vt": vectors[1], "ldvt": max(1, right[0])}
    if k.element.is_complex:
        basis = 0 if mode == "N" else max(5 * less**2, 2 * more * less + 2 * less**2)
        operands["rwork"] = k.workspace(k.real, basis + 7 * less if name == "gesdd" else 5 * less)
    if name == "gesdd":
        operands |= {"jobz": mode, "iwork": k.workspace(_S32, 8 * less)}
    else:
        operands |= {"jobu": mode, "jobvt": mode}
    k.call(name, {**operands, "work": k.element, "info": status})
    for number, vector, core in zip((2, 3), vectors, (left, right), strict=True):
        if mode == "N":
            k.fill(k.element, k.write(number), core[0] * core[1])
        else:
            k.from_column_major(vector, number)
    k.copy(0, 0)


def calls(element: ElementType) -> Mapping[str, MatrixCall]:
    """Lowerings by LAPACK's names without the letter of the type."""
    symmetric = "he" if element.is_complex else "sy"
    return {
        f"{symmetric}evd": MatrixCall(_hermitian),
        f"{symmetric}trd": MatrixCall(_tridiagonal),
        "geev": MatrixCall(_general),
        "gees": MatrixCall(_schur),
        "gehrd": MatrixCall(_hessenberg),
        **{
            name: MatrixCall(functools.partial(_singular, name=name), {0: 0, 2: basis, 3: basis})
            for name in ("gesdd", "gesvd")
        },
    }


PORTABLE: Mapping[str, MatrixCall] = {"Eigh": MatrixCall(_eigh)}
"""Lowerings of portable targets."""
