"""iota: numbers counting up along one dimension.

Semantics: XLA's Iota.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops import rules
from xla_contract.ops.attribute_fields import Declared, OnlyDimension
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class IotaAttributes:
    """The shape to fill, without layout, and the dimension along which the numbers count."""

    shape: Annotated[Shape, Declared(Shape.without_layout)]
    iota_dimension: Annotated[int, OnlyDimension("iota")]


def infer_iota(operands: Sequence[Shape], attributes: IotaAttributes) -> Shape:
    """The requested shape; it needs a dimension to count along."""
    shape = attributes.shape
    rules.expect_type(shape, rules.NUMERIC, "the result")
    if not 0 <= attributes.iota_dimension < shape.rank:
        raise ShapeError(
            f"iota_dimension must be in [0, {shape.rank}), got {attributes.iota_dimension} for "
            f"{shape.without_layout()}"
        )
    return shape.without_layout()
