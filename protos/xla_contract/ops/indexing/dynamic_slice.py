"""dynamic-slice and dynamic-update-slice: a box read or written at start indices that are values.

Semantics: XLA's DynamicSlice and DynamicUpdateSlice. The start is one scalar per dimension or,
as older writers have it, a single vector.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops import rules
from xla_contract.ops.attribute_fields import Repeated
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class DynamicSliceAttributes:
    """The size of the box in each dimension."""

    sizes: Annotated[tuple[int, ...], Repeated("dynamic_slice_sizes")]


def infer_dynamic_slice(operands: Sequence[Shape], attributes: DynamicSliceAttributes) -> Shape:
    """An array as large as the box, which fits into the operand."""
    if not operands:
        raise ShapeError("an operand and start indices are needed, got 0 operands")
    operand = operands[0]
    rules.expect_array(operand, "the operand")
    rules.expect_entries(attributes.sizes, operand, "sizes")
    _expect_starts(operand, operands[1:])
    _expect_box(operand, attributes.sizes, "sizes")
    flags = [
        operand.is_dynamic(number) and size == operand.dimensions[number]
        for number, size in enumerate(attributes.sizes)
    ]
    return operand.with_dimensions(attributes.sizes, flags)


def infer_dynamic_update_slice(operands: Sequence[Shape]) -> Shape:
    """Return the operand's shape.

    The update has the operand's element type and rank and fits into it. A dynamic dimension of an
    update that replaces the operand's whole dimension is the result's.

    Raises:
        ShapeError: The number, types, ranks or sizes of the operands break the rule.
    """
    if len(operands) < 2:
        raise ShapeError(
            f"an operand, an update and start indices are needed, got {len(operands)} operands"
        )
    operand, update = operands[:2]
    rules.expect_array(operand, "the operand")
    rules.expect_array(update, "the update")
    rules.expect_same_type(operand, update, "the operand and the update")
    rules.expect_entries(update.dimensions, operand, f"the update {update.without_layout()}")
    _expect_starts(operand, operands[2:])
    _expect_box(operand, update.dimensions, "the sizes of the update")
    flags = [
        operand.is_dynamic(number) or (update.is_dynamic(number) and size == bound)
        for number, (size, bound) in enumerate(
            zip(update.dimensions, operand.dimensions, strict=True)
        )
    ]
    return operand.with_dimensions(operand.dimensions, flags)


def _expect_starts(operand: Shape, starts: Sequence[Shape]) -> None:
    for start in starts:
        rules.expect_type(start, rules.INTEGRAL, "start indices")
    if len(starts) == 1 and starts[0].rank == 1:
        if starts[0].dimensions[0] != operand.rank:
            raise ShapeError(
                "the vector of start indices must have one entry per dimension, got "
                f"{starts[0].without_layout()} for {operand.without_layout()}"
            )
        return
    rules.expect_entries(starts, operand, "start indices")
    for start in starts:
        rules.expect_scalar(start, "a start index")
        rules.expect_same_type(starts[0], start, "start indices")


def _expect_box(operand: Shape, sizes: Sequence[int], name: str) -> None:
    for number, size in enumerate(sizes):
        if not 0 <= size <= operand.dimensions[number]:
            raise ShapeError(
                f"{name} must be in [0, size of the operand], got {size} in dimension "
                f"{number} of {operand.without_layout()}"
            )
