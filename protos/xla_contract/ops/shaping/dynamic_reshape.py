"""dynamic-reshape: a reshape to sizes known at run time, each within a bound.

Semantics: XLA's DynamicReshape: one size operand for each dimension of the result, which counts
where that dimension is dynamic.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops import rules
from xla_contract.ops.attribute_fields import DIMENSIONS, DYNAMIC_DIMENSIONS
from xla_contract.ops.shaping.set_dimension_size import expect_size
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class DynamicReshapeAttributes:
    """The bounds of the result's dimensions and, if any, which of them are dynamic."""

    bounds: Annotated[tuple[int, ...], DIMENSIONS]
    dynamic_dimensions: Annotated[tuple[bool, ...], DYNAMIC_DIMENSIONS] = ()


def infer_dynamic_reshape(operands: Sequence[Shape], attributes: DynamicReshapeAttributes) -> Shape:
    """An array of these bounds, which hold as many elements as the operand's."""
    if not operands:
        raise ShapeError("an operand and its new sizes are needed, got 0 operands")
    operand, *sizes = operands
    rules.expect_array(operand, "the operand")
    for number, size in enumerate(sizes):
        expect_size(size, f"size {number}")
    result = operand.with_dimensions(attributes.bounds, attributes.dynamic_dimensions)
    rules.expect_entries(sizes, result, "the sizes")
    if operand.element_count != result.element_count:
        raise ShapeError(
            "operand and result must hold the same number of elements, got "
            f"{operand.element_count} of {operand.without_layout()} and "
            f"{result.element_count} of {result}"
        )
    return result
