"""Participants of collectives, and the rules about them.

Semantics: XLA's collectives and the checks of its HLO verifier. The rules hold for any number of
replicas; how many there are is known when a program runs.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops.attribute_fields import Special
from xla_contract.ops.rules import any_dynamic
from xla_contract.ops.signature import exactly, listed, require_array, same_type
from xla_contract.stubs import hlo_pb2
from xla_contract.types.devices.replica_groups import (
    GroupMode,
    ReplicaGroups,
    check_groups,
    group_mode,
)
from xla_contract.types.shape import ProgramShape, Shape
from xla_contract.wire.replica_groups_proto import read_groups, write_groups


@dataclasses.dataclass(frozen=True, slots=True)
class Participants:
    """Devices that exchange data: groups, channel (0 for none), and the meaning of the ids.

    `constrain_layout` makes the layouts in the shapes binding.
    """

    groups: ReplicaGroups = dataclasses.field(default_factory=ReplicaGroups)
    channel_id: int = 0
    use_global_device_ids: bool = False
    constrain_layout: bool = False

    def mode(self, *, has_global_ids: bool = True) -> GroupMode:
        """Return the meaning of the ids in the groups.

        Args:
            has_global_ids: False for operations on which XLA does not look at
                use_global_device_ids.

        Raises:
            ShapeError: Global device ids come without a channel.
        """
        return group_mode(self.channel_id, self.use_global_device_ids if has_global_ids else None)

    @property
    def group_size(self) -> int | None:
        """The size of a group of the operations that have global ids, where that is stated.

        It is None for one group of all, and for groups of replicas with all their
        partitions.
        """
        is_stated = self.mode() is not GroupMode.CROSS_REPLICA_AND_PARTITION
        return self.groups.size if is_stated else None


def check_participants(
    participants: Participants, *, has_global_ids: bool = True, uniform: bool = True
) -> None:
    """Raise ShapeError unless the groups divide all ids among them."""
    mode = participants.mode(has_global_ids=has_global_ids)
    check_groups(participants.groups, mode, uniform=uniform)


def _read_participants(proto: hlo_pb2.HloInstructionProto, _: Shape) -> Participants:
    return Participants(
        read_groups(proto), proto.channel_id, proto.use_global_device_ids, proto.constrain_layout
    )


def _write_participants(participants: Participants, proto: hlo_pb2.HloInstructionProto) -> None:
    write_groups(participants.groups, proto)
    proto.channel_id = participants.channel_id
    proto.use_global_device_ids = participants.use_global_device_ids
    proto.constrain_layout = participants.constrain_layout


PARTICIPANTS = Special(_read_participants, _write_participants)
"""The participants of an instruction; the groups are written in the form in which they were
read."""

StatedParticipants = Annotated[Participants, PARTICIPANTS]
"""The participants as a field of an attribute record."""


def needs_arrays(operands: Sequence[Shape]) -> list[Shape]:
    """The operands without layouts; ShapeError unless there is one and all are arrays."""
    if not operands:
        raise ShapeError("at least one operand must be given, got none")
    return [require_array(operand, "an operand").without_layout() for operand in operands]


def check_combiner(called: Sequence[ProgramShape], operands: Sequence[Shape]) -> None:
    """Raise ShapeError unless one computation combines two scalars of each operand's type.

    Floating types of any precision count as one.

    Raises:
        ShapeError: The computation has other parameters, another result or other types.
    """
    (reducer,) = exactly(called, ("the reducer",))
    scalars = (*reducer.parameters, reducer.result)
    if len(scalars) != 3 or not all(shape.is_scalar for shape in scalars):
        raise ShapeError(f"the reducer must take two scalars and give one, got {reducer}")
    types = {scalar.element_type for scalar in scalars}
    for operand in operands:
        if not all(same_type(operand.element_type, element) for element in types):
            raise ShapeError(
                f"the reducer must work on the operands' element types, got {reducer} for "
                f"{listed(operands)}"
            )


def check_dimension(what: str, dimension: int, operands: Sequence[Shape]) -> None:
    """Raise ShapeError unless every operand has the dimension."""
    for operand in operands:
        if not 0 <= dimension < operand.rank:
            raise ShapeError(
                f"the {what} dimension must be in range [0, {operand.rank}), got {dimension} for "
                f"{operand}"
            )


def require_one_result_each(results: Sequence[int], operands: Sequence[Shape]) -> None:
    """Raise ShapeError unless the sizes of results are as many as the operands."""
    if len(results) != len(operands):
        raise ShapeError(
            f"there must be one result per operand, got {len(results)} for {listed(operands)}"
        )


def resized(array: Shape, dimension: int, size: int) -> Shape:
    """The shape with another size in one dimension."""
    sizes = list(array.dimensions)
    sizes[dimension] = size
    return array.with_dimensions(sizes, any_dynamic([array]))


def declared_sizes(shape: Shape, dimension: int) -> tuple[int, ...]:
    """Return the size of a dimension in each declared result; -1 if a result lacks the dimension.

    Only the results determine into how many parts a dimension is gathered or scattered.
    """
    results = shape.parts
    return tuple(
        result.dimensions[dimension] if 0 <= dimension < result.rank else -1 for result in results
    )


DECLARED_SIZES = Special(lambda proto, shape: declared_sizes(shape, proto.dimensions[0]))
"""The sizes of the instruction's only dimension in its results."""
