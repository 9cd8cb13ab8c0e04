"""Products of matrices and tensors. Semantics: XLA's Dot and DotGeneral."""

from collections.abc import Sequence

from xla_client.builder import Op
from xla_contract.dimension_numbers import DotDimensionNumbers
from xla_contract.element_type import ElementType
from xla_contract.opcode import Opcode
from xla_contract.ops.dot import DotAttributes


def dot_general(
    lhs: Op,
    rhs: Op,
    dimension_numbers: DotDimensionNumbers,
    precision: Sequence[int] | None = None,
    preferred_element_type: ElementType | None = None,
) -> Op:
    """Sums of products over the contracting dimensions, for each index of the batch dimensions.

    The result has the batch dimensions, then what is left of lhs, then what is left of rhs.
    `precision` is one of DEFAULT, HIGH, HIGHEST (0, 1, 2) for each operand. Raises ShapeError.
    """
    attributes = DotAttributes(
        dimension_numbers, preferred_element_type, tuple(map(int, precision or ()))
    )
    return lhs.builder.instruction(Opcode.DOT, [lhs, rhs], attributes)


def dot(
    lhs: Op,
    rhs: Op,
    precision: Sequence[int] | None = None,
    preferred_element_type: ElementType | None = None,
) -> Op:
    """The product of two vectors, a matrix and a vector, or two matrices.

    The last dimension of lhs meets the first of rhs.
    """
    numbers = DotDimensionNumbers((max(lhs.shape.rank - 1, 0),), (0,))
    return dot_general(lhs, rhs, numbers, precision, preferred_element_type)
