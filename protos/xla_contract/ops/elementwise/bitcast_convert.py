"""bitcast-convert: the same bits read as another element type, between widths too.

Semantics: XLA's BitcastConvertType. Narrowing appends a dimension of the parts, low bits first;
widening removes one. A PRED has the eight bits that it is stored in.
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
class BitcastConvertAttributes:
    """The element type of the result."""

    element_type: Annotated[ElementType, ELEMENT_TYPE]


def infer_bitcast_convert(operands: Sequence[Shape], attributes: BitcastConvertAttributes) -> Shape:
    """The operand's shape with the new type, one dimension more or less where widths differ."""
    (operand,) = operands
    old, new = operand.element_type, attributes.element_type
    rules.expect_array(operand, "the operand")
    evidence = f"{operand.without_layout()} to {new.text}"
    if not new.is_array:
        raise ShapeError(f"bits can only be read as an array element type, got {evidence}")
    if old.is_complex != new.is_complex:
        raise ShapeError(f"bits must not change between real and complex types, got {evidence}")
    old_width, new_width = old.bit_width, new.bit_width
    wide, narrow = max(old_width, new_width), min(old_width, new_width)
    if wide % narrow:
        raise ShapeError(f"one width in bits must be a multiple of the other, got {evidence}")
    flags = rules.any_dynamic(operands)
    if old_width == new_width:
        return Shape.array(new, operand.dimensions, None, flags)
    ratio = wide // narrow
    if old_width > new_width:
        return Shape.array(new, (*operand.dimensions, ratio), None, (*flags, False))
    if not operand.rank or operand.dimensions[-1] != ratio:
        raise ShapeError(
            f"the last dimension must hold the {ratio} parts of an element, got {evidence}"
        )
    return Shape.array(new, operand.dimensions[:-1], None, flags[:-1])
