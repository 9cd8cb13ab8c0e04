"""transpose: the dimensions in another order.

Semantics: XLA's Transpose: result dimension i is operand dimension permutation[i].
"""

import dataclasses
from collections.abc import Sequence

from xla_contract.ops import rules
from xla_contract.ops.definition import OpDefinition
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape


@dataclasses.dataclass(frozen=True, slots=True)
class TransposeAttributes:
    """The operand dimension of each result dimension."""

    permutation: tuple[int, ...]


def infer_transpose(
    operands: Sequence[Shape], attributes: TransposeAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The operand's shape with its dimensions permuted."""
    (operand,) = operands
    rules.expect_array(operand, "the operand")
    rules.expect_entries(attributes.permutation, operand, "the permutation")
    rules.expect_dimensions(attributes.permutation, operand.rank, "the permutation", operand)
    return operand.with_dimensions(
        [operand.dimensions[d] for d in attributes.permutation],
        [operand.is_dynamic(d) for d in attributes.permutation],
    )


def decode(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> TransposeAttributes:
    """Read dimensions."""
    return TransposeAttributes(tuple(proto.dimensions))


def encode(attributes: TransposeAttributes, proto: hlo_pb2.HloInstructionProto) -> None:
    """Write dimensions."""
    proto.dimensions.extend(attributes.permutation)


DEFINITION = OpDefinition(Opcode.TRANSPOSE, TransposeAttributes, infer_transpose, decode, encode)
