"""outfeed: a value put into the device's outfeed queue.

Semantics: XLA's OutfeedWithToken.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.ops.attribute_fields import Scalar, Special
from xla_contract.stubs import hlo_pb2
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import shape_from_proto, shape_to_proto


def _read_shape(proto: hlo_pb2.HloInstructionProto, _: Shape) -> Shape:
    if not proto.HasField("outfeed_shape"):
        raise InvalidArgumentError("outfeed_shape must be present, got none")
    return shape_from_proto(proto.outfeed_shape)


def _write_shape(shape: Shape, proto: hlo_pb2.HloInstructionProto) -> None:
    proto.outfeed_shape.CopyFrom(shape_to_proto(shape))


@dataclasses.dataclass(frozen=True, slots=True)
class OutfeedAttributes:
    """The shape in which the data is sent, its layout included, and free-form bytes."""

    shape: Annotated[Shape, Special(_read_shape, _write_shape)]
    config: Annotated[bytes, Scalar("outfeed_config")] = b""


def infer_outfeed(operands: Sequence[Shape], attributes: OutfeedAttributes) -> Shape:
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
