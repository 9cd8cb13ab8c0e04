"""set-dimension-size: the operand with another size, known at run time, in one dimension.

Semantics: XLA's SetDimensionSize, and RemoveDynamicDimension, which is the same instruction with
a static dimension in its result.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops import rules
from xla_contract.ops.attribute_fields import OnlyDimension, Special
from xla_contract.stubs import hlo_pb2
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape


def _is_dynamic(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> bool:
    dimension = proto.dimensions[0]
    return not 0 <= dimension < shape.rank or shape.is_dynamic(dimension)


@dataclasses.dataclass(frozen=True, slots=True)
class SetDimensionSizeAttributes:
    """The dimension, and whether it is dynamic in the result; a static one has the bound."""

    dimension: Annotated[int, OnlyDimension("resized")]
    is_dynamic: Annotated[bool, Special(_is_dynamic)] = True


def infer_set_dimension_size(
    operands: Sequence[Shape], attributes: SetDimensionSizeAttributes
) -> Shape:
    """The operand's shape with that dimension dynamic, or static if the attributes say so."""
    operand, size = operands
    dimension = attributes.dimension
    rules.expect_array(operand, "the operand")
    if not 0 <= dimension < operand.rank:
        raise ShapeError(
            f"the dimension must be in [0, {operand.rank}), got {dimension} for "
            f"{operand.without_layout()}"
        )
    expect_size(size, "the size")
    if operand.dimensions[dimension] >= 2**31:
        raise ShapeError(
            f"the bound must fit into s32, got dimension {dimension} of {operand.without_layout()}"
        )
    flags = [operand.is_dynamic(number) for number in range(operand.rank)]
    flags[dimension] = attributes.is_dynamic
    return operand.with_dimensions(operand.dimensions, flags)


def expect_size(shape: Shape, name: str) -> None:
    """Refuse what cannot be the size of a dimension: anything but s32[]."""
    if not shape.is_scalar or shape.element_type is not ElementType.S32:
        raise ShapeError(f"{name} must be s32[], got {shape.without_layout()}")
