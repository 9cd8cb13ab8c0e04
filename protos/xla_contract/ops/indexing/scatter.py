"""scatter: updates combined into operands at many indices.

Semantics: XLA's Scatter, variadic: operands are the inputs, the indices, then one update array
for each input; the computation takes (current..., update...). An update window that does not
lie inside the input is skipped.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops.attribute_fields import Record, Scalar
from xla_contract.ops.indexing.gather import batch_sizes, check_indices
from xla_contract.ops.signature import (
    check_distinct,
    check_reducer,
    check_sorted,
    exactly,
    listed,
    one_or_tuple,
    require_array,
)
from xla_contract.types.dimension_numbers import ScatterDimensionNumbers
from xla_contract.types.shape import ProgramShape, Shape


@dataclasses.dataclass(frozen=True, slots=True)
class ScatterAttributes:
    """The two promises about the indices do not change a result that keeps them."""

    dimension_numbers: Annotated[
        ScatterDimensionNumbers, Record("scatter_dimension_numbers", ScatterDimensionNumbers)
    ]
    indices_are_sorted: Annotated[bool, Scalar("indices_are_sorted")] = False
    unique_indices: Annotated[bool, Scalar("unique_indices")] = False


def infer_scatter(
    operands: Sequence[Shape], attributes: ScatterAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The inputs' shapes; a tuple when there are several."""
    count = len(operands) // 2
    if count < 1 or len(operands) != 2 * count + 1:
        raise ShapeError(
            f"operands must be inputs, indices and as many updates, got {listed(operands)}"
        )
    inputs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    for group in (inputs, updates):
        for shape in group:
            if require_array(shape, "an operand").dimensions != group[0].dimensions:
                raise ShapeError(
                    f"inputs and updates must have equal dimensions each, got {listed(operands)}"
                )
    _check_numbers(inputs[0], indices, updates[0], attributes.dimension_numbers)
    (combiner,) = exactly(called, ("the update computation",))
    scalars = [Shape.scalar(shape.element_type) for shape in inputs]
    check_reducer("update computation", combiner, scalars, [u.element_type for u in updates])
    return one_or_tuple([shape.without_layout() for shape in inputs])


def _check_numbers(
    operand: Shape, indices: Shape, updates: Shape, numbers: ScatterDimensionNumbers
) -> None:
    batch = batch_sizes(indices, numbers.index_vector_dim)
    dropped = (*numbers.inserted_window_dims, *numbers.input_batching_dims)
    check_distinct("inserted and batching dimensions", dropped, operand.rank, operand)
    check_sorted("inserted_window_dims", numbers.inserted_window_dims, operand)
    check_sorted("input_batching_dims", numbers.input_batching_dims, operand)
    batching = numbers.input_batching_dims, numbers.scatter_indices_batching_dims
    name, mapped = "scatter_dims_to_operand_dims", numbers.scatter_dims_to_operand_dims
    check_indices(operand, indices, numbers.index_vector_dim, name, mapped, *batching)
    window_dims = numbers.update_window_dims
    check_distinct("update_window_dims", window_dims, updates.rank, updates)
    window = [size for n, size in enumerate(operand.dimensions) if n not in dropped]
    if list(window_dims) != sorted(window_dims) or len(window_dims) != len(window):
        raise ShapeError(
            "update_window_dims must be sorted and one for each input dimension that is neither "
            f"inserted nor batching, got {{{','.join(map(str, window_dims))}}} for {operand}"
        )
    for number, limit in zip(window_dims, window, strict=True):
        if updates.dimensions[number] > limit:
            raise ShapeError(
                f"an update window must fit the input, got updates dim {number} = "
                f"{updates.dimensions[number]} of {updates} and {limit} of {operand}"
            )
    others = tuple(size for n, size in enumerate(updates.dimensions) if n not in window_dims)
    if others != batch:
        raise ShapeError(
            "updates must have the sizes of the indices outside the window, got "
            f"{updates} with window dims {{{','.join(map(str, window_dims))}}} and {indices} with "
            f"index_vector_dim {numbers.index_vector_dim}"
        )
