"""select-and-scatter: each window picks one element, which receives the window's source value.

Semantics: XLA's SelectAndScatter, the gradient of pooling. Operands are the array, the source
(one value per window) and the initial value; the called computations are select and scatter.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops.attribute_fields import Record
from xla_contract.ops.signature import (
    check_predicate,
    check_reducer,
    check_takes,
    exactly,
    require_array,
)
from xla_contract.types.dimension_numbers import Window
from xla_contract.types.shape import ProgramShape, Shape


@dataclasses.dataclass(frozen=True, slots=True)
class SelectAndScatterAttributes:
    """The window, with one dimension for each dimension of the array and no dilation."""

    window: Annotated[Window, Record("window", Window)]


def infer_select_and_scatter(
    operands: Sequence[Shape],
    attributes: SelectAndScatterAttributes,
    called: Sequence[ProgramShape],
) -> Shape:
    """The array's shape; ShapeError when source, window or computations do not fit it."""
    operand, source, initial = operands
    require_array(operand, "the operand")
    require_array(source, "the source")
    select, scatter = exactly(called, ("select", "scatter"))
    scalar = Shape.scalar(operand.element_type)
    check_takes("select computation", select, (scalar, scalar))
    check_predicate("select computation", select)
    check_reducer("scatter computation", scatter, [initial], [source.element_type])
    window = attributes.window
    sizes = window.output_sizes(operand.dimensions)
    if any(d.window_dilation != 1 or d.base_dilation != 1 for d in window.dimensions):
        raise ShapeError(f"the window must have no dilation, got {window}")
    if sizes != source.dimensions or source.element_type is not operand.element_type:
        expected = Shape.array(operand.element_type, sizes)
        raise ShapeError(
            f"the source must have one value per window position, {expected} for {operand} with "
            f"window {window}, got {source}"
        )
    return operand.without_layout()
