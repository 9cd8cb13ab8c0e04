"""reduce: dimensions removed by combining their elements with a computation on scalars.

Semantics: XLA's Reduce, variadic: operands are the arrays, then one initial value for each; the
computation takes (accumulator..., value...).
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops.attribute_fields import Repeated
from xla_contract.ops.rules import any_dynamic
from xla_contract.ops.signature import (
    check_distinct,
    check_reducer,
    exactly,
    listed,
    one_or_tuple,
    require_array,
)
from xla_contract.types.shape import ProgramShape, Shape


@dataclasses.dataclass(frozen=True, slots=True)
class ReduceAttributes:
    """Numbers of the reduced dimensions."""

    dimensions: Annotated[tuple[int, ...], Repeated("dimensions")] = ()


def split_inputs(operands: Sequence[Shape]) -> tuple[Sequence[Shape], Sequence[Shape]]:
    """Return arrays and initial values of a variadic reduction.

    Raises:
        ShapeError: The numbers of arrays and initial values differ, or the arrays' dimensions do.
    """
    count = len(operands) // 2
    if not operands or len(operands) != 2 * count:
        raise ShapeError(
            f"operands must be arrays and as many initial values, got {listed(operands)}"
        )
    arrays, initial = operands[:count], operands[count:]
    for shape in arrays:
        if require_array(shape, "a reduced operand").dimensions != arrays[0].dimensions:
            raise ShapeError(f"reduced operands must have equal dimensions, got {listed(arrays)}")
    return arrays, initial


def infer_reduce(
    operands: Sequence[Shape], attributes: ReduceAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """Return the shape without the reduced dimensions; a tuple if several arrays are reduced."""
    arrays, initial = split_inputs(operands)
    first = arrays[0]
    check_distinct("reduced dimensions", attributes.dimensions, first.rank, first)
    (reducer,) = exactly(called, ("the reducer",))
    types = check_reducer("reducer", reducer, initial, [a.element_type for a in arrays])
    kept = [number for number in range(first.rank) if number not in attributes.dimensions]
    flags = any_dynamic(arrays)
    return one_or_tuple(
        [
            Shape.array(
                element,
                [first.dimensions[number] for number in kept],
                None,
                [flags[number] for number in kept],
            )
            for element in types
        ]
    )
