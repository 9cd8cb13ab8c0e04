"""Lowering of LAPACK's calls for Cholesky, LU and QR factors.

Semantics: xla_server.custom_calls.linear_algebra.factorizations, and targets.portable for the
names of all platforms.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from xla_contract.types.element_type import ElementType
from xla_server.codegen.instructions.lapack import LETTER, workspace
from xla_server.codegen.kernel_ir.expressions import Expression, load_at
from xla_server.codegen.lower.linear_algebra.matrix_kernel import (
    Argument,
    MatrixCall,
    MatrixKernel,
    basis,
    option,
    to,
)
from xla_server.codegen.lower.linear_algebra.triangular import OTHER_TRIANGLE, factorize
from xla_server.codegen.routines.linear_algebra.matrix_blocks import BLOCK, is_by_blocks
from xla_server.custom_calls.attributes import parse_attributes


def _potrf(k: MatrixKernel) -> None:
    """(the factor in a copy of the operand, whose other triangle is unchanged, status)

    The transpose of a Hermitian matrix is its conjugate, whose factors are conjugated, so the
    factor's transpose is the result.
    """
    factorize(k, k.change(0, 0), k.write(1), OTHER_TRIANGLE[option(k.instruction, "uplo")])


def _getrf(k: MatrixKernel) -> None:
    """(L and U, the rows exchanged, status)"""
    _lu(k, k.write(1), k.write(2))


def _lu_decomposition(k: MatrixKernel) -> None:
    """(L and U, the rows exchanged, the order of the rows), counted from 0."""
    pivots, order = k.write(1), k.write(2)
    _lu(k, pivots, k.status())
    with k.loop(k.rows) as r:
        k.store("i32", order, r, to("i32", r))
    with k.loop(min(k.core)) as r:
        other = k.body.let("other", to("i64", load_at("i32", pivots, r)) - 1)
        k.store("i32", pivots, r, to("i32", other))
        held = k.body.let("held", load_at("i32", order, r))
        k.store("i32", order, r, load_at("i32", order, other))
        k.store("i32", order, other, held)


def _lu(k: MatrixKernel, pivots: Expression, status: Expression) -> None:
    """Build L and U as the first result."""
    m, n = k.core
    matrix = k.to_column_major(0)
    if is_by_blocks(k.computed, min(m, n), m * n * min(m, n) // 3):
        k.call_by_blocks("lu", {"a": matrix, "m": m, "n": n, "pivots": pivots, "status": status})
        # A cancelled factorisation leaves pivots unset, and they must not be used.
        k.stop()
    else:
        operands = {"m": m, "n": n, "a": matrix, "lda": m, "ipiv": pivots, "info": status}
        k.call("getrf", operands)
    k.from_column_major(matrix, 0)


def _geqrf(k: MatrixKernel) -> None:
    """(R and the reflectors, the reflectors' factors)"""
    m, n = k.core
    matrix, factors, status = k.to_column_major(0), k.write(1), k.status()
    if is_by_blocks(k.computed, min(m, n), m * n * min(m, n) * 2 // 3):
        operands = {"a": matrix, "m": m, "n": n, "factors": factors, "status": status}
        k.call_by_blocks("qr", operands | _workspace(k, m, n))
    else:
        outputs = {"tau": factors, "work": k.element, "info": status}
        k.call("geqrf", {"m": m, "n": n, "a": matrix, "lda": m, **outputs})
    k.from_column_major(matrix, 0)


def _workspace(k: MatrixKernel, m: int, n: int) -> dict[str, int | Expression]:
    """Allocate workspace for the blocked routines; return it and its size as operands."""
    letter, is_complex = LETTER[k.computed], k.element.is_complex
    name, product = ("ungqr", "unmqr") if is_complex else ("orgqr", "ormqr")
    size = min(m, n, BLOCK)
    block: dict[str, int | np.dtype[Any]] = {"m": m, "n": n, "k": size, "lda": m}
    block["work"] = k.element.dtype
    left = {"side": ord("L"), "trans": ord("N"), "ldc": m}
    queried = (
        workspace(f"{letter}geqrf", block | {"n": size}),
        workspace(f"{letter}{name}", block),
        workspace(f"{letter}{product}", block | left),
    )
    most = max(each["work"] for each in queried)
    return {"work": k.workspace(k.element, most), "work_size": most}


def _geqp3(k: MatrixKernel) -> None:
    """(R and the reflectors, the columns' order, the reflectors' factors)"""
    m, n = k.core
    matrix = k.to_column_major(0)
    reals = {"rwork": k.workspace(k.real, 2 * n)} if k.element.is_complex else {}
    outputs = {"jpvt": k.change(1, 1), "tau": k.write(2), "work": k.element, **reals}
    k.call("geqp3", {"m": m, "n": n, "a": matrix, "lda": m, **outputs, "info": k.status()})
    k.from_column_major(matrix, 0)


def _orgqr(k: MatrixKernel) -> None:
    """(the first columns of the product of the reflectors)"""
    m, n = k.core
    count = k.instruction.operands[1].shape.dimensions[-1]
    name = "ungqr" if k.element.is_complex else "orgqr"
    matrix, factors, status = k.to_column_major(0), k.read(1), k.status()
    if is_by_blocks(k.computed, count, m * n * count):
        operands = {"a": matrix, "m": m, "n": n, "count": count, "factors": factors}
        k.call_by_blocks("reflected", operands | {"status": status} | _workspace(k, m, n))
    else:
        outputs = {"tau": factors, "work": k.element, "info": status}
        k.call(name, {"m": m, "n": n, "k": count, "a": matrix, "lda": m, **outputs})
    k.from_column_major(matrix, 0)


def _ormqr(k: MatrixKernel) -> None:
    """The product of the reflectors with another matrix."""
    attributes = parse_attributes(k.instruction.attributes.opaque)
    name, adjoint = ("unmqr", "C") if k.element.is_complex else ("ormqr", "T")
    side = "L" if attributes["left"] else "R"
    m, n = k.instruction.shape.dimensions[-2:]
    packed, other = k.to_column_major(0), k.to_column_major(2)
    transpose = adjoint if attributes["transpose"] else "N"
    factors = k.read(1)
    sizes: dict[str, Argument] = {"side": side, "trans": transpose, "m": m, "n": n}
    sizes["k"] = k.columns
    where = {"a": packed, "lda": k.rows, "tau": factors, "c": other, "ldc": m}
    k.call(name, {**sizes, **where, "work": k.element, "info": k.status()})
    k.from_column_major(other, 0)


_ORGQR = MatrixCall(_orgqr, {0: basis})
_GEQRF = MatrixCall(_geqrf)


def calls(element: ElementType) -> Mapping[str, MatrixCall]:
    """Lowerings by LAPACK's names without the letter of the type."""
    unitary = "un" if element.is_complex else "or"
    return {
        "potrf": MatrixCall(_potrf),
        "getrf": MatrixCall(_getrf),
        "geqrf": _GEQRF,
        "geqp3": MatrixCall(_geqp3, {0: 0, 1: lambda _, column: column + 1}),
        f"{unitary}gqr": _ORGQR,
        f"{unitary}mqr": MatrixCall(_ormqr, {0: 2}),
    }


PORTABLE: Mapping[str, MatrixCall] = {
    "LuDecomposition": MatrixCall(_lu_decomposition, {0: 0, 2: lambda _, column: column}),
    "ProductOfElementaryHouseholderReflectors": _ORGQR,
    "Qr": _GEQRF,
}
"""Lowerings of portable targets."""
