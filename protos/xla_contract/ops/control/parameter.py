"""parameter: a value the computation is called with.

Semantics: XLA's kParameter.
"""

import dataclasses
from collections.abc import Sequence

from xla_contract.errors import ShapeError
from xla_contract.ops.definition import OpDefinition
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape


@dataclasses.dataclass(frozen=True, slots=True)
class ParameterAttributes:
    """Number of the parameter, and its shape without layout."""

    number: int
    shape: Shape


def infer_parameter(
    operands: Sequence[Shape], attributes: ParameterAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The declared shape, whatever it is."""
    if attributes.number < 0:
        raise ShapeError(f"the parameter number must not be negative, got {attributes.number}")
    return attributes.shape.without_layout()


def decode(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> ParameterAttributes:
    """Read parameter_number; the shape is the declared one."""
    return ParameterAttributes(proto.parameter_number, shape.without_layout())


def encode(attributes: ParameterAttributes, proto: hlo_pb2.HloInstructionProto) -> None:
    """Write parameter_number."""
    proto.parameter_number = attributes.number


DEFINITION = OpDefinition(Opcode.PARAMETER, ParameterAttributes, infer_parameter, decode, encode)
