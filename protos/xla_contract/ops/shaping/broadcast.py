"""broadcast: an array repeated along new dimensions.

Semantics: HLO's kBroadcast, which maps every operand dimension to a result dimension of the same
size. Stretching a dimension of size 1 takes a reshape first.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops import rules
from xla_contract.ops.attribute_fields import DIMENSIONS, Repeated
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class BroadcastAttributes:
    """The result dimension of each operand dimension, and the sizes of the result."""

    dimensions: Annotated[tuple[int, ...], Repeated("dimensions")]
    result_dimensions: Annotated[tuple[int, ...], DIMENSIONS]


def infer_broadcast(operands: Sequence[Shape], attributes: BroadcastAttributes) -> Shape:
    """An array of the result's sizes; mapped dimensions keep their size and stay dynamic."""
    (operand,) = operands
    rules.expect_array(operand, "the operand")
    result = operand.with_dimensions(attributes.result_dimensions)
    rules.expect_entries(attributes.dimensions, operand, "dimensions")
    rules.expect_dimensions(attributes.dimensions, result.rank, "dimensions", result)
    flags = [False] * result.rank
    for source, target in enumerate(attributes.dimensions):
        if operand.dimensions[source] != result.dimensions[target]:
            raise ShapeError(
                "an operand dimension must have the size of the result dimension it maps to, got "
                f"dimension {source} = {operand.dimensions[source]} of "
                f"{operand.without_layout()} and dimension {target} = "
                f"{result.dimensions[target]} of {result}"
            )
        flags[target] = operand.is_dynamic(source)
    return operand.with_dimensions(result.dimensions, flags)
