"""fusion: a call that a compiler marked for one kernel. Semantics: as XLA's Call."""

import dataclasses
import enum
from collections.abc import Sequence

from xla_contract.errors import InvalidArgumentError
from xla_contract.ops.control.call import infer_call
from xla_contract.ops.definition import NO_ATTRIBUTES, OpDefinition
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape


class FusionKind(enum.StrEnum):
    """The loop structure the compiler meant; it does not change what is computed."""

    LOOP = "kLoop"
    INPUT = "kInput"
    OUTPUT = "kOutput"
    CUSTOM = "kCustom"


@dataclasses.dataclass(frozen=True, slots=True)
class FusionAttributes:
    """The kind of fusion."""

    kind: FusionKind


def infer_fusion(
    operands: Sequence[Shape], attributes: FusionAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The shape the fused computation gives; ShapeError when it does not take the operands."""
    return infer_call(operands, NO_ATTRIBUTES, called)


def _decode(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> FusionAttributes:
    try:
        return FusionAttributes(FusionKind(proto.fusion_kind))
    except ValueError:
        raise InvalidArgumentError(
            f"fusion_kind must be one of {', '.join(FusionKind)}, got {proto.fusion_kind!r}"
        ) from None


def _encode(attributes: FusionAttributes, proto: hlo_pb2.HloInstructionProto) -> None:
    proto.fusion_kind = attributes.kind.value


DEFINITION = OpDefinition(Opcode.FUSION, FusionAttributes, infer_fusion, _decode, _encode)
