"""collective-broadcast: the value of the first of each group, given to the whole group.

Semantics: XLA's CollectiveBroadcast; a participant of no group gets zeros. With several operands
the result is a tuple.
"""

import dataclasses
from collections.abc import Sequence

from xla_contract.errors import ShapeError
from xla_contract.ops.collectives.collective import Participants, StatedParticipants, needs_arrays
from xla_contract.ops.signature import one_or_tuple
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class CollectiveBroadcastAttributes:
    """Participants of a collective-broadcast; the groups need not name all devices."""

    participants: StatedParticipants = dataclasses.field(default_factory=Participants)


def infer_collective_broadcast(
    operands: Sequence[Shape], attributes: CollectiveBroadcastAttributes
) -> Shape:
    """The operands' shapes; ShapeError if a group is empty or an id is named twice."""
    groups = attributes.participants.groups
    numbers = [number for group in groups.groups for number in group]
    if not all(groups.groups) or len(set(numbers)) != len(numbers) or min(numbers, default=0) < 0:
        raise ShapeError(
            f"groups must not be empty, and name an id from 0 at most once, got {groups}"
        )
    return one_or_tuple(needs_arrays(operands))
