"""cholesky: the triangular factor of positive definite matrices. Semantics: XLA's Cholesky."""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops.attribute_fields import Scalar
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class CholeskyAttributes:
    """Triangle that is read and written: lower for L L^H, else upper for U^H U."""

    lower: Annotated[bool, Scalar("cholesky_options.lower")]


def infer_cholesky(operands: Sequence[Shape], attributes: CholeskyAttributes) -> Shape:
    """The operand's shape; ShapeError unless its two last dimensions are square."""
    (operand,) = operands
    check_square(operand)
    return operand.without_layout()


def check_square(operand: Shape) -> None:
    """Raise ShapeError unless this is a batch of square matrices of floating or complex type."""
    if (
        not (operand.element_type.is_floating or operand.element_type.is_complex)
        or operand.rank < 2
        or operand.dimensions[-1] != operand.dimensions[-2]
    ):
        raise ShapeError(f"the operand must be square floating or complex matrices, got {operand}")
