"""tuple and get-tuple-element: values put together and taken apart.

Semantics: XLA's Tuple and GetTupleElement.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops.attribute_fields import Scalar
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class GetTupleElementAttributes:
    """The position of the element."""

    index: Annotated[int, Scalar("tuple_index")]


def infer_tuple(operands: Sequence[Shape]) -> Shape:
    """The tuple of the operands' shapes."""
    return Shape.tuple_of([operand.without_layout() for operand in operands])


def infer_get_tuple_element(
    operands: Sequence[Shape], attributes: GetTupleElementAttributes
) -> Shape:
    """The shape of one element."""
    (operand,) = operands
    if not operand.is_tuple:
        raise ShapeError(f"the operand must be a tuple, got {operand.without_layout()}")
    count = len(operand.tuple_shapes)
    if not 0 <= attributes.index < count:
        raise ShapeError(
            f"the index must be in [0, {count}), got {attributes.index} for "
            f"{operand.without_layout()}"
        )
    return operand.tuple_shapes[attributes.index].without_layout()
