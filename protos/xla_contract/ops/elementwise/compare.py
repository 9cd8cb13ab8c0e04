"""compare: elementwise comparison in one of several orders.

Semantics: XLA's Compare and its Comparison: FLOAT is IEEE's partial order, TOTALORDER puts
-NaN < -Inf < ... < -0 < +0 < ... < +Inf < +NaN.
"""

import dataclasses
import enum
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops import rules
from xla_contract.ops.attribute_fields import EnumMember
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape


class ComparisonDirection(enum.StrEnum):
    """Relation of a comparison; the value is its string on the wire."""

    EQ = "EQ"
    NE = "NE"
    GE = "GE"
    GT = "GT"
    LE = "LE"
    LT = "LT"


class ComparisonType(enum.StrEnum):
    """The order compared in, by its string on the wire."""

    FLOAT = "FLOAT"
    TOTALORDER = "TOTALORDER"
    SIGNED = "SIGNED"
    UNSIGNED = "UNSIGNED"

    @classmethod
    def default(cls, element_type: ElementType) -> "ComparisonType":
        """The order of an element type if none is stated."""
        if element_type.is_signed_integer:
            return cls.SIGNED
        if element_type.is_floating or element_type.is_complex:
            return cls.FLOAT
        return cls.UNSIGNED


@dataclasses.dataclass(frozen=True, slots=True)
class CompareAttributes:
    """The relation, and the order if it is stated; None takes the element type's own."""

    direction: Annotated[
        ComparisonDirection, EnumMember("comparison_direction", ComparisonDirection)
    ]
    type: Annotated[
        ComparisonType | None, EnumMember("comparison_type", ComparisonType, is_optional=True)
    ] = None


def infer_compare(operands: Sequence[Shape], attributes: CompareAttributes) -> Shape:
    """A PRED array of the operands' dimensions; complex numbers are not ordered."""
    lhs, rhs = operands
    rules.expect_array(lhs, "the left operand")
    rules.expect_array(rhs, "the right operand")
    rules.expect_same(lhs, rhs, "operands")
    element_type = lhs.element_type
    allowed = [ComparisonType.default(element_type)]
    if element_type.is_floating:
        allowed.append(ComparisonType.TOTALORDER)
    if attributes.type is not None and attributes.type not in allowed:
        raise ShapeError(
            f"the comparison type of {element_type.text} must be {' or '.join(allowed)}, got "
            f"{attributes.type} on {lhs.without_layout()}"
        )
    if element_type.is_complex and attributes.direction not in _UNORDERED:
        raise ShapeError(
            "complex numbers have no order, so the direction must be EQ or NE, got "
            f"{attributes.direction} on {lhs.without_layout()}"
        )
    return Shape.array(ElementType.PRED, lhs.dimensions, None, rules.any_dynamic(operands))


_UNORDERED = (ComparisonDirection.EQ, ComparisonDirection.NE)
