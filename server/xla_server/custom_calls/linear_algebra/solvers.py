"""Systems that need no factors: trsm and gtsv.

Semantics: BLAS's and LAPACK's routines of these names, called as JAX's typed FFI calls them.
"""

from collections.abc import Mapping

import numpy as np

from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.custom_calls.linear_algebra import batched
from xla_server.custom_calls.linear_algebra.lapack import blas_routine, routine

_TRANSPOSE = {"N": 0, "T": 1, "C": 2}


def triangular_shapes(call: batched.BatchedCall) -> Shape:
    """The solution, of the right side's shape."""
    for name, letters in (("uplo", "LU"), ("trans_x", "NTC"), ("diag", "UN")):
        call.letter(name, letters)
    right = call.operands[1].dimensions
    across = right[0] if call.letter("side", "LR") == "L" else right[1]
    call.require(call.square() == across, "the right side must fit the triangle")
    return call.operands[1]


def triangular(call: batched.BatchedCall, matrices: batched.Matrices) -> batched.Matrices:
    """Solutions of triangular systems, of which only the named triangle is read.

    A zero on the diagonal gives infinities.
    """
    solution = blas_routine(call.element, "trsm")(
        1.0,
        *matrices,
        side=int(call.letter("side", "LR") == "R"),
        lower=int(call.letter("uplo", "LU") == "L"),
        trans_a=_TRANSPOSE[call.letter("trans_x", "NTC")],
        diag=int(call.letter("diag", "UN") == "U"),
    )
    return (solution,)


def tridiagonal_shapes(call: batched.BatchedCall) -> Shape:
    """(the diagonals overwritten, the solution, status)"""
    below, diagonal, above, right = call.operands
    call.require(
        below == diagonal == above and right.dimensions[0] == diagonal.dimensions[0],
        "the diagonals and the right side must have the same number of rows",
    )
    return Shape.tuple_of([*call.operands, batched.STATUS])


def tridiagonal(call: batched.BatchedCall, matrices: batched.Matrices) -> batched.Matrices:
    """The lower diagonal starts with an element that is not read, the upper one ends so."""
    below, diagonal, above, right = (matrix.copy() for matrix in matrices)
    if call.rows == 1:
        if not diagonal[0]:
            return below, diagonal, above, right, 1
        return below, diagonal, above, right / diagonal[0], 0
    second, diagonal, above[:-1], solution, info = routine(call.element, "gtsv")(
        below[1:], diagonal, above[:-1], right
    )
    # LAPACK overwrites the lower diagonal with the second upper one of the factors.
    below[1 : 1 + len(second)] = np.ravel(second)
    return below, diagonal, above, solution, info


def kernels(element: ElementType) -> Mapping[str, batched.MatrixFunction]:
    """The kernels for one type of matrices, by LAPACK's names without the letter of the type."""
    return {
        "trsm": batched.MatrixFunction(
            (batched.MATRIX, batched.MATRIX), triangular_shapes, triangular, element
        ),
        "gtsv": batched.MatrixFunction(
            (batched.VECTOR, batched.VECTOR, batched.VECTOR, batched.MATRIX),
            tridiagonal_shapes,
            tridiagonal,
            element,
            empty=lambda call, matrices: (*matrices, 0),
        ),
    }
