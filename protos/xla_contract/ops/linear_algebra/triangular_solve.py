"""triangular-solve: op(a) x = b or x op(a) = b for triangular a.

Semantics: XLA's TriangularSolve, over batches of matrices.
"""

import dataclasses
import enum
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops.attribute_fields import EnumMember, Scalar
from xla_contract.ops.linear_algebra.cholesky import check_square
from xla_contract.types.shape import Shape


class Transpose(enum.IntEnum):
    """Form of the matrix `a` in the equation, by the numbers on the wire."""

    NO_TRANSPOSE = 1
    TRANSPOSE = 2
    ADJOINT = 3


@dataclasses.dataclass(frozen=True, slots=True)
class TriangularSolveAttributes:
    """The side a stands on, the triangle that is read, a diagonal of ones, and op."""

    left_side: Annotated[bool, Scalar("triangular_solve_options.left_side")]
    lower: Annotated[bool, Scalar("triangular_solve_options.lower")]
    unit_diagonal: Annotated[bool, Scalar("triangular_solve_options.unit_diagonal")]
    transpose_a: Annotated[
        Transpose, EnumMember("triangular_solve_options.transpose_a", Transpose)
    ] = Transpose.NO_TRANSPOSE


def infer_triangular_solve(
    operands: Sequence[Shape], attributes: TriangularSolveAttributes
) -> Shape:
    """The shape of b; ShapeError when it does not fit a."""
    matrix, right = operands
    check_square(matrix)
    side = -2 if attributes.left_side else -1
    if (
        right.element_type is not matrix.element_type
        or right.rank != matrix.rank
        or right.dimensions[:-2] != matrix.dimensions[:-2]
        or right.dimensions[side] != matrix.dimensions[-1]
    ):
        raise ShapeError(
            f"a and b must agree in type, batch and the solved dimension ({side} of b), got a "
            f"{matrix} and b {right}"
        )
    return right.without_layout()
