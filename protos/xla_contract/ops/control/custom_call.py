"""custom-call: a function outside HLO, found by its name.

Semantics: XLA's CustomCall. The function decides what its operands mean, so any shapes go.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops.attribute_fields import Declared, Scalar, Special
from xla_contract.stubs import hlo_pb2
from xla_contract.types.shape import Shape


def _write_opaque(opaque: bytes, proto: hlo_pb2.HloInstructionProto) -> None:
    proto.backend_config = opaque


@dataclasses.dataclass(frozen=True, slots=True)
class CustomCallAttributes:
    """The function's name, the result's shape without layout, and the function's options.

    `api_version` is a number of CustomCallApiVersion.
    """

    target: Annotated[str, Scalar("custom_call_target")]
    shape: Annotated[Shape, Declared(Shape.without_layout)]
    # Older writers have the arguments in custom_call_opaque.
    opaque: Annotated[
        bytes,
        Special(lambda proto, _: proto.backend_config or proto.custom_call_opaque, _write_opaque),
    ] = b""
    has_side_effect: Annotated[bool, Scalar("custom_call_has_side_effect")] = False
    api_version: Annotated[int, Scalar("custom_call_api_version")] = 0


def infer_custom_call(operands: Sequence[Shape], attributes: CustomCallAttributes) -> Shape:
    """The shape that the caller states; the function must have a name."""
    if not attributes.target:
        raise ShapeError(f"custom_call_target must name a function, got '' for {attributes.shape}")
    return attributes.shape.without_layout()
