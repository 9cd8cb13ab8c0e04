"""rng: random numbers between or around two scalars. Semantics: XLA's RngUniform, RngNormal."""

import dataclasses
import enum
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops.attribute_fields import Declared, EnumMember
from xla_contract.ops.signature import listed
from xla_contract.types.shape import Shape


class RandomDistribution(enum.IntEnum):
    """Uniform on [a, b) or normal with mean a and deviation b, by the numbers on the wire."""

    UNIFORM = 1
    NORMAL = 2


@dataclasses.dataclass(frozen=True, slots=True)
class RngAttributes:
    """The distribution, and the shape of the result, without layout."""

    distribution: Annotated[RandomDistribution, EnumMember("distribution", RandomDistribution)]
    shape: Annotated[Shape, Declared(Shape.without_layout)]


def infer_rng(operands: Sequence[Shape], attributes: RngAttributes) -> Shape:
    """The requested shape; ShapeError unless the operands are two scalars of its element type."""
    shape = attributes.shape
    if not shape.is_array:
        raise ShapeError(f"random numbers must be asked for as an array, got {shape}")
    element = shape.element_type
    if len(operands) != 2 or any(
        not operand.is_scalar or operand.element_type is not element for operand in operands
    ):
        raise ShapeError(
            f"operands must be two scalars of the result's type, got {listed(operands)} for {shape}"
        )
    uniform = attributes.distribution is RandomDistribution.UNIFORM
    allowed = element.is_floating or (uniform and element.is_integer)
    if not allowed:
        raise ShapeError(
            f"a {attributes.distribution.name.lower()} distribution must be of "
            f"{'real' if uniform else 'floating'} numbers, got {shape}"
        )
    return shape.without_layout()
