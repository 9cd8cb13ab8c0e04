"""get-dimension-size: the size of a dimension, as a value.

Semantics: XLA's GetDimensionSize.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops import rules
from xla_contract.ops.attribute_fields import OnlyDimension
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class GetDimensionSizeAttributes:
    """The dimension asked about."""

    dimension: Annotated[int, OnlyDimension("measured")]


def infer_get_dimension_size(
    operands: Sequence[Shape], attributes: GetDimensionSizeAttributes
) -> Shape:
    """`s32[]`; the operand has that dimension."""
    (operand,) = operands
    rules.expect_array(operand, "the operand")
    if not 0 <= attributes.dimension < operand.rank:
        raise ShapeError(
            f"the dimension must be in [0, {operand.rank}), got {attributes.dimension} for "
            f"{operand.without_layout()}"
        )
    if operand.dimensions[attributes.dimension] >= 2**31:
        raise ShapeError(
            f"the size must fit into s32, got dimension {attributes.dimension} of "
            f"{operand.without_layout()}"
        )
    return Shape.scalar(ElementType.S32)
