"""Cholesky, LU and QR factors: potrf, getrf, geqrf, geqp3, orgqr, ormqr.

Semantics: LAPACK's routines of these names, called as JAX's typed FFI calls them on CPUs.
"""

from collections.abc import Mapping

import numpy as np

from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.custom_calls.linear_algebra.batched import (
    MATRIX,
    PIVOTS,
    STATUS,
    VECTOR,
    BatchedCall,
    Matrices,
    MatrixFunction,
)
from xla_server.custom_calls.linear_algebra.lapack import routine, work
from xla_server.custom_calls.linear_algebra.pivoted import factored


def cholesky_shapes(call: BatchedCall) -> Shape:
    """(the factor over the operand, status)"""
    call.letter("uplo", "LU")
    size = call.square()
    return Shape.tuple_of([call.array(size, size), STATUS])


def cholesky(call: BatchedCall, matrices: Matrices) -> Matrices:
    """Cholesky factors; only the named triangle is read and written."""
    lower = call.letter("uplo", "LU") == "L"
    factor, info = routine(call.element, "potrf")(matrices[0], lower=lower, clean=0)
    return factor, info


def lu_shapes(call: BatchedCall) -> Shape:
    """(L and U over the operand, the rows exchanged counted from 1, status)"""
    pivots = Shape.array(ElementType.S32, (call.smaller,))
    return Shape.tuple_of([call.array(call.rows, call.columns), pivots, STATUS])


def lu(call: BatchedCall, matrices: Matrices) -> Matrices:
    """LU factors with partial pivoting; a zero pivot is the status, not an error."""
    factors, pivots, info = routine(call.element, "getrf")(matrices[0])
    return factors, pivots + 1, info


def qr_shapes(call: BatchedCall) -> Shape:
    """(R and the reflectors over the operand, the reflectors' factors)"""
    return Shape.tuple_of([call.array(call.rows, call.columns), call.array(call.smaller)])


def qr(call: BatchedCall, matrices: Matrices) -> Matrices:
    """Householder reflectors below the diagonal, R on and above it."""
    factor = routine(call.element, "geqrf")
    packed, factors, *_ = factor(matrices[0], lwork=work(factor(matrices[0], lwork=-1)))
    return packed, factors


def pivoted_qr_shapes(call: BatchedCall) -> Shape:
    """(R and the reflectors, the columns' order counted from 1, the reflectors' factors)"""
    call.require(call.operands[1].dimensions == (call.columns,), "columns need one pivot each")
    return Shape.tuple_of(
        [call.array(call.rows, call.columns), call.operands[1], call.array(call.smaller)]
    )


def reflectors_shapes(call: BatchedCall) -> Shape:
    """The first columns of Q, as many as the reflectors' matrix has."""
    (count,) = call.operands[1].dimensions
    call.require(count <= call.columns <= call.rows, "reflectors must fit into columns into rows")
    return call.array(call.rows, call.columns)


def reflectors(call: BatchedCall, matrices: Matrices) -> Matrices:
    """The product of the reflectors that geqrf gave."""
    product = routine(call.element, "orgqr", "ungqr")
    packed, factors = matrices
    return (product(packed, factors, lwork=work(product(packed, factors, lwork=-1)))[0],)


def no_reflectors(call: BatchedCall, matrices: Matrices) -> Matrices:
    """The product of no reflectors."""
    return (np.eye(call.rows, call.columns),)


def applied_shapes(call: BatchedCall) -> Shape:
    """The third operand, multiplied."""
    call.flag("transpose")
    dimensions = call.operands[2].dimensions
    across = dimensions[0] if call.flag("left") else dimensions[1]
    (count,) = call.operands[1].dimensions
    call.require(
        count == call.columns <= call.rows == across,
        "reflectors must be as many as columns, and rows as many as the other matrix has there",
    )
    return call.operands[2]


def applied(call: BatchedCall, matrices: Matrices) -> Matrices:
    """Q times the third operand or the other way round; transposed means Q's adjoint."""
    multiply = routine(call.element, "ormqr", "unmqr")
    adjoint = "C" if call.element.is_complex else "T"
    side = "L" if call.flag("left") else "R"
    arguments = (side, adjoint if call.flag("transpose") else "N", *matrices)
    return (multiply(*arguments, work(multiply(*arguments, -1)))[0],)


def kernels(element: ElementType) -> Mapping[str, MatrixFunction]:
    """The kernels for one type of matrices, by LAPACK's names without the letter of the type."""
    unitary = "un" if element.is_complex else "or"
    return {
        "potrf": MatrixFunction((MATRIX,), cholesky_shapes, cholesky, element),
        "getrf": MatrixFunction((MATRIX,), lu_shapes, lu, element),
        "geqrf": MatrixFunction((MATRIX,), qr_shapes, qr, element),
        "geqp3": MatrixFunction(
            (MATRIX, PIVOTS),
            pivoted_qr_shapes,
            lambda call, matrices: factored(call.element, *matrices),
            element,
            empty=lambda call, matrices: (matrices[0], np.arange(1, call.columns + 1), 0),
        ),
        f"{unitary}gqr": MatrixFunction(
            (MATRIX, VECTOR), reflectors_shapes, reflectors, element, empty=no_reflectors
        ),
        f"{unitary}mqr": MatrixFunction(
            (MATRIX, VECTOR, MATRIX),
            applied_shapes,
            applied,
            element,
            empty=lambda call, matrices: (matrices[2],),
        ),
    }
