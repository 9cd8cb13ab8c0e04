"""all-reduce and its two halves: each operand combined over the participants, element by element.

Semantics: XLA's AllReduce. With several operands the result is a tuple. The first half has the
result of the whole operation, and the second passes it on.
"""

import dataclasses
from collections.abc import Sequence

from xla_contract.ops.collectives.collective import (
    Participants,
    StatedParticipants,
    check_combiner,
    check_participants,
    needs_arrays,
)
from xla_contract.ops.signature import one_or_tuple
from xla_contract.types.shape import ProgramShape, Shape


@dataclasses.dataclass(frozen=True, slots=True)
class AllReduceAttributes:
    """Participants of an all-reduce."""

    participants: StatedParticipants = dataclasses.field(default_factory=Participants)


def infer_all_reduce(
    operands: Sequence[Shape], attributes: AllReduceAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The operands' shapes; the groups may differ in size."""
    check_participants(attributes.participants, uniform=False)
    arrays = needs_arrays(operands)
    check_combiner(called, arrays)
    return one_or_tuple(arrays)


def infer_all_reduce_done(operands: Sequence[Shape]) -> Shape:
    """The operand's shape."""
    return operands[0].without_layout()
