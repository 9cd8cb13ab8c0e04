"""collective-reduce: each operand combined over the participants, for one of each group.

Semantics: XLA's CollectiveReduce. The result is meant for the root, the first of the group;
others get nothing they could use. With several operands the result is a tuple. In XLA a further
operand may choose the roots when the program runs (has_dynamic_root); no field for that is
published yet, so it shows only in there being one operand more than results.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import UnimplementedError
from xla_contract.ops.attribute_fields import Special
from xla_contract.ops.collectives.collective import (
    PARTICIPANTS,
    Participants,
    check_combiner,
    check_participants,
    needs_arrays,
)
from xla_contract.ops.signature import one_or_tuple
from xla_contract.stubs import hlo_pb2
from xla_contract.types.shape import ProgramShape, Shape


def _read_participants(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> Participants:
    results = len(shape.parts)
    if len(proto.operand_ids) == results + 1:
        raise UnimplementedError(
            "the root of a group must be its first participant, got an operand more than results "
            f"{shape.without_layout()}, which chooses another"
        )
    participants: Participants = PARTICIPANTS.read(proto, shape)
    return participants


@dataclasses.dataclass(frozen=True, slots=True)
class CollectiveReduceAttributes:
    """Participants of a collective-reduce; the first one of each group is its root."""

    participants: Annotated[Participants, Special(_read_participants, PARTICIPANTS.write)] = (
        dataclasses.field(default_factory=Participants)
    )


def infer_collective_reduce(
    operands: Sequence[Shape],
    attributes: CollectiveReduceAttributes,
    called: Sequence[ProgramShape],
) -> Shape:
    """The operands' shapes; ShapeError if groups or the computation do not fit."""
    check_participants(attributes.participants, uniform=False)
    arrays = needs_arrays(operands)
    check_combiner(called, arrays)
    return one_or_tuple(arrays)
