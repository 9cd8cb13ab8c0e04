"""reverse: the elements back to front along some dimensions.

Semantics: XLA's Rev.
"""

import dataclasses
from collections.abc import Sequence

from xla_contract.ops import rules
from xla_contract.ops.definition import OpDefinition
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape


@dataclasses.dataclass(frozen=True, slots=True)
class ReverseAttributes:
    """The dimensions that are turned round."""

    dimensions: tuple[int, ...]


def infer_reverse(
    operands: Sequence[Shape], attributes: ReverseAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The operand's shape."""
    (operand,) = operands
    rules.expect_array(operand, "the operand")
    rules.expect_dimensions(attributes.dimensions, operand.rank, "dimensions", operand)
    return operand.without_layout()


def decode(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> ReverseAttributes:
    """Read dimensions."""
    return ReverseAttributes(tuple(proto.dimensions))


def encode(attributes: ReverseAttributes, proto: hlo_pb2.HloInstructionProto) -> None:
    """Write dimensions."""
    proto.dimensions.extend(attributes.dimensions)


DEFINITION = OpDefinition(Opcode.REVERSE, ReverseAttributes, infer_reverse, decode, encode)
