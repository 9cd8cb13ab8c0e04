"""get-dimension-size: the size of a dimension, as a value.

Semantics: XLA's GetDimensionSize.
"""

import dataclasses
from collections.abc import Sequence

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.ops import rules
from xla_contract.ops.definition import OpDefinition
from xla_contract.stubs import hlo_pb2
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape


@dataclasses.dataclass(frozen=True, slots=True)
class GetDimensionSizeAttributes:
    """The dimension asked about."""

    dimension: int


def infer_get_dimension_size(
    operands: Sequence[Shape],
    attributes: GetDimensionSizeAttributes,
    called: Sequence[ProgramShape],
) -> Shape:
    """`s32[]`; the operand has that dimension."""
    (operand,) = operands
    rules.expect_array(operand, "the operand")
    if not 0 <= attributes.dimension < operand.rank:
        raise ShapeError(
            f"the dimension must be in [0, {operand.rank}), got {attributes.dimension} for "
            f"{operand.without_layout()}"
        )
    if operand.dimensions[attributes.dimension] >= 2**31:
        raise ShapeError(
            f"the size must fit into s32, got dimension {attributes.dimension} of "
            f"{operand.without_layout()}"
        )
    return Shape.scalar(ElementType.S32)


def decode(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> GetDimensionSizeAttributes:
    """Read the one entry of dimensions."""
    if len(proto.dimensions) != 1:
        raise InvalidArgumentError(
            "dimensions must hold the dimension asked about alone, got "
            f"{rules.braced(proto.dimensions)}"
        )
    return GetDimensionSizeAttributes(proto.dimensions[0])


def encode(attributes: GetDimensionSizeAttributes, proto: hlo_pb2.HloInstructionProto) -> None:
    """Write dimensions."""
    proto.dimensions.append(attributes.dimension)


DEFINITION = OpDefinition(
    Opcode.GET_DIMENSION_SIZE,
    GetDimensionSizeAttributes,
    infer_get_dimension_size,
    decode,
    encode,
)
