"""parameter: a value the computation is called with.

Semantics: XLA's kParameter.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops.attribute_fields import Declared, Scalar
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class ParameterAttributes:
    """Number of the parameter, and its shape without layout."""

    number: Annotated[int, Scalar("parameter_number")]
    shape: Annotated[Shape, Declared(Shape.without_layout)]


def infer_parameter(operands: Sequence[Shape], attributes: ParameterAttributes) -> Shape:
    """The declared shape, whatever it is."""
    if attributes.number < 0:
        raise ShapeError(f"the parameter number must not be negative, got {attributes.number}")
    return attributes.shape.without_layout()
