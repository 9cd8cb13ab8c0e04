"""rng-get-and-update-state: a 128-bit number that moves on each time it is read.

Compilers write it where they expand rng. Semantics: XLA's HloRngGetAndUpdateStateInstruction.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.ops.attribute_fields import Scalar
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class RngGetAndUpdateStateAttributes:
    """The increment of the state, an s64."""

    delta: Annotated[int, Scalar("delta")]


def infer_rng_get_and_update_state(
    operands: Sequence[Shape], attributes: RngGetAndUpdateStateAttributes
) -> Shape:
    """`u64[2]`, the low half first."""
    return Shape.array(ElementType.U64, [2])
