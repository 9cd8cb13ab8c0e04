"""reduce-precision: round to a narrower floating point format and come back.

Semantics: XLA's ReducePrecision.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops import rules
from xla_contract.ops.attribute_fields import Scalar
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class ReducePrecisionAttributes:
    """The bits of the narrower format."""

    exponent_bits: Annotated[int, Scalar("exponent_bits")]
    mantissa_bits: Annotated[int, Scalar("mantissa_bits")]


def infer_reduce_precision(
    operands: Sequence[Shape], attributes: ReducePrecisionAttributes
) -> Shape:
    """The operand's shape; an exponent bit is needed to tell zero from infinity."""
    (operand,) = operands
    rules.expect_type(operand, rules.FLOATING, "the operand")
    if attributes.exponent_bits < 1:
        raise ShapeError(f"exponent_bits must be at least 1, got {attributes.exponent_bits}")
    if attributes.mantissa_bits < 0:
        raise ShapeError(f"mantissa_bits must not be negative, got {attributes.mantissa_bits}")
    return operand.without_layout()
