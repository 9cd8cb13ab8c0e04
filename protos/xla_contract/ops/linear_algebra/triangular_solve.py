"""triangular-solve: op(a) x = b or x op(a) = b for triangular a.

Semantics: XLA's TriangularSolve, over batches of matrices.
"""

import dataclasses
import enum
from collections.abc import Sequence

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.ops.definition import OpDefinition
from xla_contract.ops.linear_algebra.cholesky import check_square
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape


class Transpose(enum.IntEnum):
    """Form of the matrix `a` in the equation, by the numbers on the wire."""

    NO_TRANSPOSE = 1
    TRANSPOSE = 2
    ADJOINT = 3


@dataclasses.dataclass(frozen=True, slots=True)
class TriangularSolveAttributes:
    """The side a stands on, the triangle that is read, a diagonal of ones, and op."""

    left_side: bool
    lower: bool
    unit_diagonal: bool
    transpose_a: Transpose = Transpose.NO_TRANSPOSE


def infer_triangular_solve(
    operands: Sequence[Shape],
    attributes: TriangularSolveAttributes,
    called: Sequence[ProgramShape] = (),
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


def _decode(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> TriangularSolveAttributes:
    options = proto.triangular_solve_options
    try:
        transpose = Transpose(options.transpose_a)
    except ValueError:
        raise InvalidArgumentError(
            f"transpose_a must be one of 1, 2 and 3, got {options.transpose_a}"
        ) from None
    return TriangularSolveAttributes(
        options.left_side, options.lower, options.unit_diagonal, transpose
    )


def _encode(attributes: TriangularSolveAttributes, proto: hlo_pb2.HloInstructionProto) -> None:
    options = proto.triangular_solve_options
    options.left_side = attributes.left_side
    options.lower = attributes.lower
    options.unit_diagonal = attributes.unit_diagonal
    options.transpose_a = int(attributes.transpose_a)  # type: ignore[assignment]


DEFINITION = OpDefinition(
    Opcode.TRIANGULAR_SOLVE, TriangularSolveAttributes, infer_triangular_solve, _decode, _encode
)
