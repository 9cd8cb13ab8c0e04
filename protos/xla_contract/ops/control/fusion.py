"""fusion: a call that a compiler marked for one kernel. Semantics: as XLA's Call."""

import dataclasses
import enum
from collections.abc import Sequence
from typing import Annotated

from xla_contract.ops.attribute_fields import EnumMember
from xla_contract.ops.control.call import infer_call
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

    kind: Annotated[FusionKind, EnumMember("fusion_kind", FusionKind)]


def infer_fusion(
    operands: Sequence[Shape], attributes: FusionAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The shape the fused computation gives; ShapeError when it does not take the operands."""
    return infer_call(operands, called)
