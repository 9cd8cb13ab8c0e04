"""Lowering of LAPACK's calls for eigenvalues, singular values and what leads to them.

Semantics: xla_server.custom_calls.spectral, and portable for Eigh. What LAPACK leaves as it was
where it finds no result is zero, as its Python wrappers have it.
"""

from collections.abc import Mapping
from types import MappingProxyType

from xla_contract.element_type import ElementType
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.lower.matrix_kernel import BASIS, MatrixCall, MatrixKernel, option
from xla_server.custom_calls.attributes import parse_attributes
from xla_server.custom_calls.spectral import NOT_FINITE
from xla_server.ir.module import HloInstruction

_S32 = ElementType.S32
_NOBODY = "to_i64(0)"
"""The address of nothing."""


def lower_hermitian(lowering: Lowering, i: HloInstruction) -> Tree:
    """(eigenvectors, eigenvalues ascending, status)"""
    k = MatrixKernel(lowering, i)
    mode = option(i, "mode")
    vectors = _eigen(k, mode, option(i, "uplo"), k.write(2))
    if mode == "V":
        k.give(vectors, 0)
    else:
        k.copy(0, 0)
    return k.done(9 * k.rows**3)


def lower_eigh(lowering: Lowering, i: HloInstruction) -> Tree:
    """(eigenvectors, eigenvalues ascending); NaN where LAPACK gives up."""
    k = MatrixKernel(lowering, i)
    is_lower = i.attributes.opaque.startswith(b"1")
    status = k.status()
    k.give(_eigen(k, "V", "L" if is_lower else "U", status), 0)
    with k.block(f"if to_i64(peek_i32({status}, 0)) != 0:"):
        k.fill(k.element, k.write(0), k.rows**2, "nan")
        k.fill(k.real, k.write(1), k.rows, "nan")
    return k.done(9 * k.rows**3)


def _eigen(k: MatrixKernel, mode: str, triangle: str, status: str) -> str:
    """The eigenvectors in LAPACK's order; eigenvalues go to the second result."""
    n = k.rows
    turned, values = k.take(0), k.write(1)
    k.fill(k.real, values, n)
    if k.element.is_complex:
        works = k.element, k.real, _S32
        k.call("heevd", mode, triangle, n, turned, n, values, *works, status)
    else:
        k.call("syevd", mode, triangle, n, turned, n, values, k.element, _S32, status)
    return turned


def lower_general(lowering: Lowering, i: HloInstruction) -> Tree:
    """(eigenvalues, in parts where real, left and right eigenvectors, status)"""
    k = MatrixKernel(lowering, i)
    n, parts = k.rows, 1 if k.element.is_complex else 2
    modes = option(i, "compute_left"), option(i, "compute_right")
    turned = k.take(0)
    values = [k.write(number) for number in range(parts)]
    results = [k.write(parts), k.write(parts + 1)]
    status = k.write(parts + 2)
    complex_type = k.element if k.element.is_complex else k.element.complex_of
    real = k.real.text
    k.add("finite = 1")
    with k.block(f"for k in range({n * n * (1 if parts == 2 else 2)}):"):
        k.add(f"finite = finite * to_i64(is_finite(peek_{real}({turned}, k)))")
    # LAPACK would not stop on NaN or infinity.
    with k.block("if finite == 0:"):
        for value in values:
            k.fill(k.element, value, n, "nan")
        for result in results:
            k.fill(complex_type, result, n * n, "nan")
        k.add(f"poke_i32({status}, 0, to_i32({NOT_FINITE}))")
    with k.block("else:"):
        vectors = [k.room(k.element, n * n if mode == "V" else 1) for mode in modes]
        for value in values:
            k.fill(k.element, value, n)
        for vector, mode in zip(vectors, modes, strict=True):
            k.fill(k.element, vector, n * n if mode == "V" else 1)
        reals = [k.room(k.real, 2 * n)] if k.element.is_complex else []
        places = (vectors[0], n, vectors[1], n)
        k.call("geev", *modes, n, turned, n, *values, *places, k.element, *reals, status)
        for result, vector, mode in zip(results, vectors, modes, strict=True):
            if mode == "N":
                k.fill(complex_type, result, n * n)
            elif k.element.is_complex:
                k.turn(vector, result, n, n)
            else:
                _pair(k, real, vector, values[1], result)
    return k.done(25 * n**3)


def _pair(k: MatrixKernel, real: str, vectors: str, imaginary: str, result: str) -> None:
    """Complex eigenvectors: for a pair LAPACK gives real and imaginary part of the first."""
    n = k.rows
    with k.block(f"for c in range({n}):"):
        k.add("first = c", "second = c", f"sign = to_{real}(0)")
        with k.block(f"if gt(peek_{real}({imaginary}, c), to_{real}(0)):"):
            k.add(f"second = minimum(c + 1, {n - 1})", f"sign = to_{real}(1)")
        with k.block(f"if lt(peek_{real}({imaginary}, c), to_{real}(0)):"):
            k.add("first = maximum(c - 1, 0)", f"sign = to_{real}(-1)")
        with k.block(f"for r in range({n}):"):
            place = f"{result}, 2 * (r * {n} + c)"
            k.add(
                f"poke_{real}({place}, peek_{real}({vectors}, first * {n} + r))",
                f"other = peek_{real}({vectors}, second * {n} + r)",
                f"poke_{real}({place} + 1, mul(sign, other))",
            )


def lower_schur(lowering: Lowering, i: HloInstruction) -> Tree:
    """(the Schur form, its basis, eigenvalues in parts where real, how many chosen, status)"""
    k = MatrixKernel(lowering, i)
    n, parts = k.rows, 1 if k.element.is_complex else 2
    mode = option(i, "mode")
    form, basis = k.take(0), k.room(k.element, n * n if mode == "V" else 1)
    values = [k.write(2 + number) for number in range(parts)]
    chosen, status = k.write(2 + parts), k.write(3 + parts)
    for value in values:
        k.fill(k.element, value, n)
    reals = [k.room(k.real, n)] if k.element.is_complex else []
    places: list[str | int] = [n, form, n, chosen, *values, basis, n]
    # Nothing is chosen, so neither the function that chooses nor its notes are there.
    k.call("gees", mode, "N", _NOBODY, *places, k.element, *reals, _NOBODY, status)
    k.give(form, 0)
    if mode == "V":
        k.give(basis, 1)
    else:
        k.fill(k.element, k.write(1), n * n)
    return k.done(25 * n**3)


def lower_hessenberg(lowering: Lowering, i: HloInstruction) -> Tree:
    """(the Hessenberg form and the reflectors, the reflectors' factors, status)"""
    k = MatrixKernel(lowering, i)
    n, attributes = k.rows, parse_attributes(i.attributes.opaque)
    low, high = (attributes[name] for name in ("low", "high"))
    assert isinstance(low, int)
    assert isinstance(high, int)
    form = k.take(0)
    k.call("gehrd", n, low, high, form, n, k.write(1), k.element, k.write(2))
    k.give(form, 0)
    return k.done(4 * n**3)


def lower_tridiagonal(lowering: Lowering, i: HloInstruction) -> Tree:
    """(the reflectors, diagonal, next diagonal, the reflectors' factors, status)"""
    k = MatrixKernel(lowering, i)
    n, form = k.rows, k.take(0)
    name = "hetrd" if k.element.is_complex else "sytrd"
    results = (k.write(1), k.write(2), k.write(3))
    k.call(name, option(i, "uplo"), n, form, n, *results, k.element, k.write(4))
    k.give(form, 0)
    return k.done(2 * n**3)


def lower_gesdd(lowering: Lowering, i: HloInstruction) -> Tree:
    """(the operand, singular values descending, left and right vectors in rows, status)"""
    return _singular(lowering, i, "gesdd")


def lower_gesvd(lowering: Lowering, i: HloInstruction) -> Tree:
    """The same by another algorithm."""
    return _singular(lowering, i, "gesvd")


def _singular(lowering: Lowering, i: HloInstruction, name: str) -> Tree:
    k = MatrixKernel(lowering, i)
    mode = option(i, "mode")
    m, n = k.core
    less, more = sorted(k.core)
    turned, values, status = k.take(0), k.write(1), k.write(4)
    left, right = (i.shape.tuple_shapes[number].dimensions[-2:] for number in (2, 3))
    sizes = [left[0] * left[1], right[0] * right[1]] if mode != "N" else [1, 1]
    vectors = [k.room(k.element, size) for size in sizes]
    for vector, size in zip(vectors, sizes, strict=True):
        k.fill(k.element, vector, size)
    k.fill(k.real, values, less)
    extra = []
    if k.element.is_complex:
        basis = 0 if mode == "N" else max(5 * less**2, 2 * more * less + 2 * less**2)
        extra.append(k.room(k.real, basis + 7 * less if name == "gesdd" else 5 * less))
    if name == "gesdd":
        extra.append(k.room(_S32, 8 * less))
    modes = [mode] if name == "gesdd" else [mode, mode]
    places = (turned, m, values, vectors[0], m, vectors[1], max(1, right[0]))
    k.call(name, *modes, m, n, *places, k.element, *extra, status)
    for number, vector, core in zip((2, 3), vectors, (left, right), strict=True):
        if mode == "N":
            k.fill(k.element, k.write(number), core[0] * core[1])
        else:
            k.give(vector, number)
    k.copy(0, 0)
    return k.done(20 * m * n * less)


def calls(element: ElementType) -> Mapping[str, MatrixCall]:
    """How calls become rows, by LAPACK's names without the letter of the type."""
    symmetric = "he" if element.is_complex else "sy"
    return {
        f"{symmetric}evd": MatrixCall(lower_hermitian),
        f"{symmetric}trd": MatrixCall(lower_tridiagonal),
        "geev": MatrixCall(lower_general),
        "gees": MatrixCall(lower_schur),
        "gehrd": MatrixCall(lower_hessenberg),
        "gesdd": MatrixCall(lower_gesdd, {0: 0, 2: BASIS, 3: BASIS}),
        "gesvd": MatrixCall(lower_gesvd, {0: 0, 2: BASIS, 3: BASIS}),
    }


PORTABLE: Mapping[str, MatrixCall] = MappingProxyType({"Eigh": MatrixCall(lower_eigh)})
"""How calls that any platform knows become rows."""
