"""concatenate: arrays joined along a dimension.

Semantics: XLA's ConcatInDim.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops import rules
from xla_contract.ops.attribute_fields import OnlyDimension
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class ConcatenateAttributes:
    """The dimension along which sizes add up."""

    dimension: Annotated[int, OnlyDimension("concatenated")]


def infer_concatenate(operands: Sequence[Shape], attributes: ConcatenateAttributes) -> Shape:
    """The operands' shape with the sizes along the dimension added up."""
    if not operands:
        raise ShapeError("at least one operand is needed, got 0")
    first, dimension = operands[0], attributes.dimension
    rules.expect_array(first, "operand 0")
    if not 0 <= dimension < first.rank:
        raise ShapeError(
            f"the dimension must be in [0, {first.rank}), got {dimension} for "
            f"{first.without_layout()}"
        )
    for number, operand in enumerate(operands[1:], 1):
        rules.expect_array(operand, f"operand {number}")
        rules.expect_same_type(first, operand, f"operands 0 and {number}")
        if operand.rank != first.rank or _others(first, dimension) != _others(operand, dimension):
            raise ShapeError(
                f"operands must have equal dimensions except dimension {dimension}, got "
                f"operand 0 {first.without_layout()} and operand {number} "
                f"{operand.without_layout()}"
            )
    sizes = list(first.dimensions)
    sizes[dimension] = sum(operand.dimensions[dimension] for operand in operands)
    return first.with_dimensions(sizes, rules.any_dynamic(operands))


def _others(shape: Shape, dimension: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return shape.dimensions[:dimension], shape.dimensions[dimension + 1 :]
