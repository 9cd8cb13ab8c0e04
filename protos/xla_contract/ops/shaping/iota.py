"""iota: numbers counting up along one dimension.

Semantics: XLA's Iota.
"""

import dataclasses
from collections.abc import Sequence

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.ops import rules
from xla_contract.ops.definition import OpDefinition
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape


@dataclasses.dataclass(frozen=True, slots=True)
class IotaAttributes:
    """The shape to fill, without layout, and the dimension along which the numbers count."""

    shape: Shape
    iota_dimension: int


def infer_iota(
    operands: Sequence[Shape], attributes: IotaAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The shape asked for; it needs a dimension to count along."""
    shape = attributes.shape
    rules.expect_type(shape, rules.NUMERIC, "the result")
    if not 0 <= attributes.iota_dimension < shape.rank:
        raise ShapeError(
            f"iota_dimension must be in [0, {shape.rank}), got {attributes.iota_dimension} for "
            f"{shape.without_layout()}"
        )
    return shape.without_layout()


def decode(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> IotaAttributes:
    """Read the one entry of dimensions; the shape is the declared one."""
    if len(proto.dimensions) != 1:
        raise InvalidArgumentError(
            f"dimensions must hold the iota dimension alone, got {rules.braced(proto.dimensions)}"
        )
    return IotaAttributes(shape.without_layout(), proto.dimensions[0])


def encode(attributes: IotaAttributes, proto: hlo_pb2.HloInstructionProto) -> None:
    """Write dimensions."""
    proto.dimensions.append(attributes.iota_dimension)


DEFINITION = OpDefinition(Opcode.IOTA, IotaAttributes, infer_iota, decode, encode)
