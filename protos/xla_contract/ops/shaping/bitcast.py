"""bitcast: the same memory read as another shape.

Semantics: XLA's kBitcast, which compiled programs hold. The layouts of operand and result define
the result's elements; no data moves.
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
class BitcastAttributes:
    """The shape the memory is read as, without layout."""

    shape: Shape


def infer_bitcast(
    operands: Sequence[Shape], attributes: BitcastAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The shape asked for, which takes as many bytes as the operand."""
    (operand,) = operands
    rules.expect_array(operand, "the operand")
    rules.expect_array(attributes.shape, "the result")
    if operand.without_layout().byte_size != attributes.shape.byte_size:
        raise ShapeError(
            "operand and result must take the same number of bytes, got "
            f"{operand.without_layout()} and {attributes.shape}"
        )
    return attributes.shape


def decode(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> BitcastAttributes:
    """The new shape is the declared one."""
    return BitcastAttributes(shape.without_layout())


def encode(attributes: BitcastAttributes, proto: hlo_pb2.HloInstructionProto) -> None:
    """Write no field: the instruction's shape has everything."""


DEFINITION = OpDefinition(Opcode.BITCAST, BitcastAttributes, infer_bitcast, decode, encode)
