"""constant: a value that is part of the program.

Semantics: XLA's kConstant.
"""

import dataclasses
from collections.abc import Sequence

from xla_contract.errors import InvalidArgumentError
from xla_contract.ops.definition import OpDefinition
from xla_contract.stubs import hlo_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape
from xla_contract.wire.literals.proto import literal_from_proto, literal_to_proto


@dataclasses.dataclass(frozen=True, slots=True)
class ConstantAttributes:
    """The value; its layout says how it was written, not how the result lies."""

    literal: Literal


def infer_constant(
    operands: Sequence[Shape], attributes: ConstantAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The literal's shape."""
    return attributes.literal.shape.without_layout()


def decode(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> ConstantAttributes:
    """Read the literal, which has to be there and sound."""
    if not proto.HasField("literal"):
        raise InvalidArgumentError(
            f"a constant must have a literal, got none for {shape.without_layout()}"
        )
    return ConstantAttributes(literal_from_proto(proto.literal))


def encode(attributes: ConstantAttributes, proto: hlo_pb2.HloInstructionProto) -> None:
    """Write the literal."""
    proto.literal.CopyFrom(literal_to_proto(attributes.literal))


DEFINITION = OpDefinition(Opcode.CONSTANT, ConstantAttributes, infer_constant, decode, encode)
