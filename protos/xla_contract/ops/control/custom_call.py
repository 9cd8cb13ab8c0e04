"""custom-call: a function outside HLO, found by its name.

Semantics: XLA's CustomCall. The function decides what its operands mean, so any shapes go.
"""

import dataclasses
from collections.abc import Sequence

from xla_contract.errors import ShapeError
from xla_contract.ops.definition import OpDefinition
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape


@dataclasses.dataclass(frozen=True, slots=True)
class CustomCallAttributes:
    """The function's name, the result's shape without layout, and the function's options.

    `api_version` is a number of CustomCallApiVersion.
    """

    target: str
    shape: Shape
    opaque: bytes = b""
    has_side_effect: bool = False
    api_version: int = 0


def infer_custom_call(
    operands: Sequence[Shape], attributes: CustomCallAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The shape the caller says, for a function with a name."""
    if not attributes.target:
        raise ShapeError(f"custom_call_target must name a function, got '' for {attributes.shape}")
    return attributes.shape.without_layout()


def decode(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> CustomCallAttributes:
    """Return target, arguments, side effect and API version; the shape is the declared one.

    Older writers have the arguments in custom_call_opaque rather than in backend_config.
    """
    return CustomCallAttributes(
        proto.custom_call_target,
        shape.without_layout(),
        proto.backend_config or proto.custom_call_opaque,
        proto.custom_call_has_side_effect,
        proto.custom_call_api_version,
    )


def encode(attributes: CustomCallAttributes, proto: hlo_pb2.HloInstructionProto) -> None:
    """Write target, arguments, side effect and api version."""
    proto.custom_call_target = attributes.target
    proto.backend_config = attributes.opaque
    proto.custom_call_has_side_effect = attributes.has_side_effect
    proto.custom_call_api_version = attributes.api_version  # type: ignore[assignment]


DEFINITION = OpDefinition(
    Opcode.CUSTOM_CALL, CustomCallAttributes, infer_custom_call, decode, encode
)
