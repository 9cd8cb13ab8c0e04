"""outfeed: a value put into the device's outfeed queue.

Semantics: XLA's OutfeedWithToken.
"""

import dataclasses
from collections.abc import Sequence

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.ops.definition import OpDefinition
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape
from xla_contract.wire.shape_proto import shape_from_proto, shape_to_proto


@dataclasses.dataclass(frozen=True, slots=True)
class OutfeedAttributes:
    """The shape in which the data is sent, its layout included, and free-form bytes."""

    shape: Shape
    config: bytes = b""


def infer_outfeed(
    operands: Sequence[Shape], attributes: OutfeedAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """A token; the operands are data of the sent shape and a token."""
    data, token = operands
    if not token.is_token:
        raise ShapeError(f"the second operand must be a token, got {token.without_layout()}")
    if not data.compatible(attributes.shape):
        raise ShapeError(
            "the data must have the shape that is sent, got "
            f"{data.without_layout()} and {attributes.shape.without_layout()}"
        )
    for part in data.leaves():
        if not part.is_array:
            raise ShapeError(f"only arrays can be sent, got {data.without_layout()}")
    return Shape.token()


def decode(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> OutfeedAttributes:
    """Read outfeed_shape and outfeed_config."""
    if not proto.HasField("outfeed_shape"):
        raise InvalidArgumentError("outfeed_shape must be present, got none")
    return OutfeedAttributes(shape_from_proto(proto.outfeed_shape), proto.outfeed_config)


def encode(attributes: OutfeedAttributes, proto: hlo_pb2.HloInstructionProto) -> None:
    """Write outfeed_shape and outfeed_config."""
    proto.outfeed_shape.CopyFrom(shape_to_proto(attributes.shape))
    proto.outfeed_config = attributes.config


DEFINITION = OpDefinition(Opcode.OUTFEED, OutfeedAttributes, infer_outfeed, decode, encode)
