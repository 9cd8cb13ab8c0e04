"""reduce-precision: round to a narrower floating point format and come back.

Semantics: XLA's ReducePrecision.
"""

import dataclasses
from collections.abc import Sequence

from xla_contract.errors import ShapeError
from xla_contract.ops import rules
from xla_contract.ops.definition import OpDefinition
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape


@dataclasses.dataclass(frozen=True, slots=True)
class ReducePrecisionAttributes:
    """The bits of the narrower format."""

    exponent_bits: int
    mantissa_bits: int


def infer_reduce_precision(
    operands: Sequence[Shape],
    attributes: ReducePrecisionAttributes,
    called: Sequence[ProgramShape],
) -> Shape:
    """The operand's shape; an exponent bit is needed to tell zero from infinity."""
    (operand,) = operands
    rules.expect_type(operand, rules.FLOATING, "the operand")
    if attributes.exponent_bits < 1:
        raise ShapeError(f"exponent_bits must be at least 1, got {attributes.exponent_bits}")
    if attributes.mantissa_bits < 0:
        raise ShapeError(f"mantissa_bits must not be negative, got {attributes.mantissa_bits}")
    return operand.without_layout()


def decode(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> ReducePrecisionAttributes:
    """Read exponent_bits and mantissa_bits."""
    return ReducePrecisionAttributes(proto.exponent_bits, proto.mantissa_bits)


def encode(attributes: ReducePrecisionAttributes, proto: hlo_pb2.HloInstructionProto) -> None:
    """Write exponent_bits and mantissa_bits."""
    proto.exponent_bits = attributes.exponent_bits
    proto.mantissa_bits = attributes.mantissa_bits


DEFINITION = OpDefinition(
    Opcode.REDUCE_PRECISION,
    ReducePrecisionAttributes,
    infer_reduce_precision,
    decode,
    encode,
)
