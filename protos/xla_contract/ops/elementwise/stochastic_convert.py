"""stochastic-convert: to integers, rounding away from zero or towards it at random.

Semantics: XLA's StochasticConvertType: the random operand rounds away from zero with the
probability of the discarded part. XLA infers other result types too and computes none of them.
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
class StochasticConvertAttributes:
    """The element type of the result."""

    element_type: Annotated[ElementType, ELEMENT_TYPE]


def infer_stochastic_convert(
    operands: Sequence[Shape], attributes: StochasticConvertAttributes
) -> Shape:
    """The operand's shape with the new type; there is one random number of its width each."""
    operand, random = operands
    rules.expect_type(operand, rules.FLOATING, "the operand")
    rules.expect_type(random, rules.UNSIGNED, "the random operand")
    rules.expect_same_dimensions(operand, random, "the operand and the random operand")
    if operand.element_type.bit_width != random.element_type.bit_width:
        raise ShapeError(
            "random numbers must have as many bits as the operand's elements, got "
            f"{random.without_layout()} and {operand.without_layout()}"
        )
    if not attributes.element_type.is_signed_integer:
        raise ShapeError(
            "the new element type must be a signed integer, got "
            f"{operand.without_layout()} to {attributes.element_type.text}"
        )
    return operand.without_layout().with_element_type(attributes.element_type)
