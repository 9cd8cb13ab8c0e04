"""ragged-all-to-all: slices of the operand's rows sent to where the receiver keeps them.

Semantics: XLA's RaggedAllToAll. Operands: the input, the output that is updated, and four tables
with one row of updates per participant: where a slice starts in the input, its size, where it
starts in the receiver's output, and the sizes received.
"""

import dataclasses
from collections.abc import Sequence

from xla_contract.errors import ShapeError
from xla_contract.ops.collectives.collective import (
    Participants,
    StatedParticipants,
    check_participants,
    needs_arrays,
)
from xla_contract.ops.signature import listed
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class RaggedAllToAllAttributes:
    """Participants of a ragged-all-to-all."""

    participants: StatedParticipants = dataclasses.field(default_factory=Participants)


def infer_ragged_all_to_all(
    operands: Sequence[Shape], attributes: RaggedAllToAllAttributes
) -> Shape:
    """The output's shape; ShapeError unless its rows are like the input's and the tables alike."""
    check_participants(attributes.participants, has_global_ids=False)
    arrays = needs_arrays(operands)
    given, output, *tables = arrays
    if (
        given.rank < 1
        or output.rank < 1
        or given.element_type is not output.element_type
        or given.dimensions[1:] != output.dimensions[1:]
    ):
        raise ShapeError(
            f"input and output must have rows of the same shape, got {given} and {output}"
        )
    first = tables[0]
    if first.rank not in (1, 2) or not first.element_type.is_integer:
        raise ShapeError(f"offsets and sizes must be integers of rank 1 or 2, got {first}")
    if any(table != first for table in tables):
        raise ShapeError(f"offsets and sizes must have one shape, got {listed(tables)}")
    count = attributes.participants.groups.size
    rows = first.dimensions[0]
    if count is not None and (rows != count if first.rank == 2 else rows % count):
        raise ShapeError(
            f"offsets and sizes must have rows for each of a group of {count}, got {first}"
        )
    return output
