"""transpose: the dimensions in another order.

Semantics: XLA's Transpose: result dimension i is operand dimension permutation[i].
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.ops import rules
from xla_contract.ops.attribute_fields import Repeated
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class TransposeAttributes:
    """The operand dimension of each result dimension."""

    permutation: Annotated[tuple[int, ...], Repeated("dimensions")]


def infer_transpose(operands: Sequence[Shape], attributes: TransposeAttributes) -> Shape:
    """The operand's shape with its dimensions permuted."""
    (operand,) = operands
    rules.expect_array(operand, "the operand")
    rules.expect_entries(attributes.permutation, operand, "the permutation")
    rules.expect_dimensions(attributes.permutation, operand.rank, "the permutation", operand)
    return operand.with_dimensions(
        [operand.dimensions[d] for d in attributes.permutation],
        [operand.is_dynamic(d) for d in attributes.permutation],
    )
