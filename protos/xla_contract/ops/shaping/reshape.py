"""reshape: the same elements, in row-major order, under other dimensions.

Semantics: XLA's Reshape; its result does not depend on layouts.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops import rules
from xla_contract.ops.attribute_fields import DIMENSIONS, DYNAMIC_DIMENSIONS
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class ReshapeAttributes:
    """The sizes of the result and, if any, which of them are dynamic."""

    dimensions: Annotated[tuple[int, ...], DIMENSIONS]
    dynamic_dimensions: Annotated[tuple[bool, ...], DYNAMIC_DIMENSIONS] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class DimensionGroup:
    """Neighbouring dimensions of the operand that become neighbouring ones of the result."""

    of_operand: range
    of_result: range


def infer_reshape(operands: Sequence[Shape], attributes: ReshapeAttributes) -> Shape:
    """Return an array of the given sizes, which hold as many elements as the operand.

    If dimensions of the operand are dynamic, so is one of the dimensions they become: the one that
    is stated, or the only candidate.

    Raises:
        ShapeError: The element counts differ, or no dimension or several could be dynamic.
    """
    (operand,) = operands
    rules.expect_array(operand, "the operand")
    result = operand.with_dimensions(attributes.dimensions, attributes.dynamic_dimensions)
    if operand.element_count != result.element_count:
        raise ShapeError(
            f"operand and result must have the same number of elements, got "
            f"{operand.element_count} of {operand.without_layout()} and "
            f"{result.element_count} of {result}"
        )
    if operand.is_static or not operand.element_count:
        return result
    flags = [result.is_dynamic(number) for number in range(result.rank)]
    for group in groups(operand.dimensions, result.dimensions):
        if any(operand.is_dynamic(number) for number in group.of_operand) and group.of_result:
            flags[_dynamic_of(group, operand, result)] = True
    return result.with_dimensions(result.dimensions, flags)


def groups(old: Sequence[int], new: Sequence[int]) -> list[DimensionGroup]:
    """Return the shortest runs of dimensions of both that hold as many elements, in order.

    `old` and `new` have the same number of elements, which is not 0.
    """
    found = []
    first_old = first_new = 0
    while first_old < len(old) or first_new < len(new):
        last_old, last_new = first_old, first_new
        count_old = count_new = 1
        while last_old + last_new == first_old + first_new or count_old != count_new:
            if last_old < len(old) and (count_old <= count_new or last_new == len(new)):
                count_old *= old[last_old]
                last_old += 1
            else:
                count_new *= new[last_new]
                last_new += 1
        if last_new == first_new and list(new[last_new : last_new + 1]) == [1]:
            # Size 1 on both sides is one dimension, not one that is dropped and one that is added.
            last_new += 1
        found.append(DimensionGroup(range(first_old, last_old), range(first_new, last_new)))
        first_old, first_new = last_old, last_new
    return found


def _dynamic_of(group: DimensionGroup, operand: Shape, result: Shape) -> int:
    """Return the one dimension of the result that takes up the dynamic size of the group."""
    dynamic = [number for number in group.of_result if result.is_dynamic(number)]
    wide = [number for number in group.of_result if result.dimensions[number] != 1]
    chosen = dynamic or wide or list(group.of_result)[:1]
    if len(chosen) != 1:
        raise ShapeError(
            "one of the dimensions that a dynamic dimension becomes must be dynamic, got "
            f"{rules.braced(group.of_operand)} of {operand.without_layout()} to "
            f"{rules.braced(group.of_result)} of {result}"
        )
    return chosen[0]
