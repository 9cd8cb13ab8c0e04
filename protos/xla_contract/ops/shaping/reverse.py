"""reverse: the elements back to front along some dimensions.

Semantics: XLA's Rev.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.ops import rules
from xla_contract.ops.attribute_fields import Repeated
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class ReverseAttributes:
    """The dimensions that are turned round."""

    dimensions: Annotated[tuple[int, ...], Repeated("dimensions")]


def infer_reverse(operands: Sequence[Shape], attributes: ReverseAttributes) -> Shape:
    """The operand's shape."""
    (operand,) = operands
    rules.expect_array(operand, "the operand")
    rules.expect_dimensions(attributes.dimensions, operand.rank, "dimensions", operand)
    return operand.without_layout()
