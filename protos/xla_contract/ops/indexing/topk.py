"""topk: the k largest or smallest along the last dimension and where they were.

Semantics: XLA's TopK: sorted, ties by position; the result is (values, s32 indices).
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops.attribute_fields import Scalar
from xla_contract.ops.rules import any_dynamic
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class TopKAttributes:
    """Number of elements, and whether they are the largest or the smallest."""

    k: Annotated[int, Scalar("k")]
    largest: Annotated[bool, Scalar("largest")] = True


def infer_topk(operands: Sequence[Shape], attributes: TopKAttributes) -> Shape:
    """(values, indices), the last dimension k; ShapeError if the operand's last one is smaller."""
    (operand,) = operands
    if (
        not operand.is_array
        or operand.element_type.is_complex
        or operand.rank < 1
        or not 0 <= attributes.k <= operand.dimensions[-1]
    ):
        raise ShapeError(
            "k must be at most the last dimension of an array that can be ordered, got k = "
            f"{attributes.k} and {operand}"
        )
    sizes = (*operand.dimensions[:-1], attributes.k)
    flags = (*any_dynamic([operand])[:-1], False)
    types = (operand.element_type, ElementType.S32)
    return Shape.tuple_of([Shape.array(element, sizes, None, flags) for element in types])
