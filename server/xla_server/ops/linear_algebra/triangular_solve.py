"""The evaluator of triangular-solve: BLAS's trsm, matrix by matrix."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from xla_contract.ops.linear_algebra.triangular_solve import Transpose, TriangularSolveAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, Frame, Value
from xla_server.ops.linear_algebra.cholesky import lapack_dtype
from xla_server.ops.numerics.scalar_function import round_to

_TRSM_TRANSPOSE = {Transpose.NO_TRANSPOSE: 0, Transpose.TRANSPOSE: 1, Transpose.ADJOINT: 2}


def evaluate_triangular_solve(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """Solutions of triangular systems, of which only the named triangle is read.

    A zero on the diagonal gives infinities, not an error.
    """
    # The server listens before scipy is loaded.
    from scipy.linalg import get_blas_funcs

    attributes: TriangularSolveAttributes = instruction.attributes
    element = instruction.shape.element_type
    matrices, right = (
        round_to(cast(Array, operand), lapack_dtype(element)) for operand in operands
    )
    solution = np.empty(right.shape, right.dtype)
    solve: Any = get_blas_funcs("trsm", dtype=right.dtype)
    for position in np.ndindex(right.shape[:-2]):
        frame.check_cancelled()
        if right[position].size:
            solution[position] = solve(
                1.0,
                matrices[position],
                right[position],
                side=0 if attributes.left_side else 1,
                lower=int(attributes.lower),
                trans_a=_TRSM_TRANSPOSE[attributes.transpose_a],
                diag=int(attributes.unit_diagonal),
            )
    return round_to(solution, element.dtype)
