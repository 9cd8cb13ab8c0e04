"""convert: the same numbers in another element type.

Semantics: XLA's ConvertElementType.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops import rules
from xla_contract.ops.attribute_fields import ELEMENT_TYPE
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class ConvertAttributes:
    """The element type of the result."""

    element_type: Annotated[ElementType, ELEMENT_TYPE]


def infer_convert(operands: Sequence[Shape], attributes: ConvertAttributes) -> Shape:
    """The operand's shape with the new element type."""
    (operand,) = operands
    rules.expect_array(operand, "the operand")
    if not attributes.element_type.is_array:
        raise ShapeError(
            "an array can only be converted to an array element type, got "
            f"{operand.without_layout()} to {attributes.element_type.text}"
        )
    return operand.without_layout().with_element_type(attributes.element_type)
