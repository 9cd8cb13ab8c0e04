"""sort: operands ordered together along one dimension by a comparison of scalars.

Semantics: XLA's Sort. The comparator takes two scalars of each operand, (a0, b0, a1, b1, ...),
and says whether a comes before b.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops.attribute_fields import OnlyDimension, Scalar
from xla_contract.ops.rules import any_dynamic
from xla_contract.ops.signature import (
    check_predicate,
    check_takes,
    exactly,
    listed,
    one_or_tuple,
    require_array,
)
from xla_contract.types.shape import ProgramShape, Shape


@dataclasses.dataclass(frozen=True, slots=True)
class SortAttributes:
    """The sorted dimension, and whether equal elements keep their order."""

    dimension: Annotated[int, OnlyDimension("sorted")]
    is_stable: Annotated[bool, Scalar("is_stable")] = False


def infer_sort(
    operands: Sequence[Shape], attributes: SortAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The operands' shapes; a tuple when there are several."""
    if not operands:
        raise ShapeError("at least one operand must be sorted, got none")
    first = operands[0]
    for shape in operands:
        if require_array(shape, "an operand").dimensions != first.dimensions:
            raise ShapeError(f"operands must have equal dimensions, got {listed(operands)}")
    if not 0 <= attributes.dimension < first.rank:
        raise ShapeError(
            f"the sorted dimension must be in range [0, {first.rank}), got "
            f"{attributes.dimension} for {first}"
        )
    (comparator,) = exactly(called, ("the comparator",))
    scalars = [Shape.scalar(shape.element_type) for shape in operands for _ in range(2)]
    check_takes("comparator", comparator, scalars)
    check_predicate("comparator", comparator)
    flags = any_dynamic(operands)
    return one_or_tuple([shape.with_dimensions(shape.dimensions, flags) for shape in operands])
