"""bitcast: the same memory read as another shape.

Semantics: XLA's kBitcast, which compiled programs hold. The layouts of operand and result define
the result's elements; no data moves.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops import rules
from xla_contract.ops.attribute_fields import Declared
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class BitcastAttributes:
    """The shape the memory is read as, without layout."""

    shape: Annotated[Shape, Declared(Shape.without_layout)]


def infer_bitcast(operands: Sequence[Shape], attributes: BitcastAttributes) -> Shape:
    """The requested shape, which takes as many bytes as the operand."""
    (operand,) = operands
    rules.expect_array(operand, "the operand")
    rules.expect_array(attributes.shape, "the result")
    if operand.without_layout().byte_size != attributes.shape.byte_size:
        raise ShapeError(
            "operand and result must take the same number of bytes, got "
            f"{operand.without_layout()} and {attributes.shape}"
        )
    return attributes.shape
