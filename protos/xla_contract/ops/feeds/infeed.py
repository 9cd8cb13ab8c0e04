"""infeed: the next item of the device's infeed queue.

Semantics: XLA's InfeedWithToken.
"""

import dataclasses
from collections.abc import Sequence

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.ops.definition import OpDefinition
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape


@dataclasses.dataclass(frozen=True, slots=True)
class InfeedAttributes:
    """The shape of the data, without the token and without layout, and free-form bytes."""

    shape: Shape
    config: bytes = b""


def infer_infeed(
    operands: Sequence[Shape], attributes: InfeedAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The pair of the data and a token; the operand is a token too."""
    (token,) = operands
    if not token.is_token:
        raise ShapeError(f"the operand must be a token, got {token.without_layout()}")
    for part in attributes.shape.leaves():
        if not part.is_array:
            raise ShapeError(f"only arrays can be fed, got {attributes.shape.without_layout()}")
    return Shape.tuple_of([attributes.shape.without_layout(), Shape.token()])


def decode(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> InfeedAttributes:
    """Read infeed_config; the data's shape is the first part of the declared pair."""
    if len(shape.tuple_shapes) != 2 or not shape.tuple_shapes[1].is_token:
        raise InvalidArgumentError(
            f"the result must be a pair of data and token, got {shape.without_layout()}"
        )
    return InfeedAttributes(shape.tuple_shapes[0].without_layout(), proto.infeed_config)


def encode(attributes: InfeedAttributes, proto: hlo_pb2.HloInstructionProto) -> None:
    """Write infeed_config."""
    proto.infeed_config = attributes.config


DEFINITION = OpDefinition(Opcode.INFEED, InfeedAttributes, infer_infeed, decode, encode)
