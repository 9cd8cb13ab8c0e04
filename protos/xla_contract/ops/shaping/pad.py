"""pad: an array with a value put around and between its elements.

Semantics: XLA's Pad: interior padding first, then the edges, which may be negative and cut off.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops import rules
from xla_contract.ops.attribute_fields import Record
from xla_contract.types.dimension_numbers import PaddingConfig
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class PadAttributes:
    """The amounts of padding."""

    config: Annotated[PaddingConfig, Record("padding_config", PaddingConfig)]


def infer_pad(operands: Sequence[Shape], attributes: PadAttributes) -> Shape:
    """The operand's shape with low + high + interior between each pair of elements added."""
    operand, value = operands
    config = attributes.config
    rules.expect_array(operand, "the operand")
    rules.expect_scalar(value, "the padding value")
    rules.expect_same_type(operand, value, "the operand and the padding value")
    rules.expect_entries(config.dimensions, operand, "the padding")
    sizes = []
    for number, (padding, size) in enumerate(
        zip(config.dimensions, operand.dimensions, strict=True)
    ):
        evidence = f"{padding} in dimension {number} of {operand.without_layout()}"
        if padding.interior < 0:
            raise ShapeError(f"interior padding must not be negative, got {evidence}")
        padded = size + max(size - 1, 0) * padding.interior + padding.low + padding.high
        if padded < 0:
            raise ShapeError(f"padding must not cut off more than there is, got {evidence}")
        sizes.append(padded)
    return operand.with_dimensions(sizes, rules.any_dynamic([operand]))
