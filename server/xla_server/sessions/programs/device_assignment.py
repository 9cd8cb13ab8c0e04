"""The devices that the participants of a program run on.

Semantics: XLA's DeviceAssignmentProto. Participants are numbered by flattened id.
"""

import dataclasses
from collections.abc import Sequence

from xla_contract.errors import InvalidArgumentError, ResourceExhaustedError
from xla_contract.types.devices.device_grid import DeviceGrid


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceAssignment:
    """The devices on which the participants of a grid run, as a message states them.

    `owner` names that message in errors. `ordinals` has the device of each participant, by
    flattened id.
    """

    owner: str
    grid: DeviceGrid
    ordinals: tuple[int, ...]


def stated_grid(
    replicas: int, partitions: int, assignments: Sequence[DeviceAssignment]
) -> DeviceGrid:
    """Return the grid that counts and assignments state together; a count of 0 states nothing.

    Raises InvalidArgumentError if they contradict each other.
    """
    found = DeviceGrid(replicas or 1, partitions or 1)
    for assignment in assignments:
        of = assignment.grid
        for name, wanted, noun, got in (
            ("num_replicas", replicas, "replica_count", of.replicas),
            ("num_partitions", partitions, "computation_count", of.partitions),
        ):
            if wanted and wanted != got:
                raise InvalidArgumentError(
                    f"{name} must be the {noun} of {assignment.owner} device_assignment, got "
                    f"{wanted} and {got}"
                )
        if of != assignments[0].grid:
            first = assignments[0]
            raise InvalidArgumentError(
                f"{first.owner} and {assignment.owner} device_assignment must be for the same "
                f"grid, got {first.grid} and {of}"
            )
        found = of
    return found


def assigned_ordinals(
    grid: DeviceGrid, assignments: Sequence[DeviceAssignment], device_count: int
) -> tuple[int, ...]:
    """Return the device of each participant; by default participant d is on device d.

    Raises ResourceExhaustedError if there are fewer devices than participants, and
    InvalidArgumentError for assignments of another grid, of devices that are absent or named twice,
    and for two that differ.
    """
    if grid.size > device_count:
        raise ResourceExhaustedError(
            f"the server has {device_count} devices, got a program for {grid.size}: {grid}",
            hint="Start the server with more --devices.",
        )
    for assignment in assignments:
        owner, ordinals = assignment.owner, assignment.ordinals
        if assignment.grid != grid:
            raise InvalidArgumentError(
                f"{owner} device_assignment must be for the program's {grid}, got one for "
                f"{assignment.grid}"
            )
        for participant, ordinal in enumerate(ordinals):
            if not 0 <= ordinal < device_count:
                raise InvalidArgumentError(
                    f"{owner} device_assignment must name devices below {device_count}, got "
                    f"{ordinal} for participant {participant}"
                )
            first = ordinals.index(ordinal)
            if first != participant:
                raise InvalidArgumentError(
                    f"{owner} device_assignment must name each device once, got {ordinal} for "
                    f"participants {first} and {participant}"
                )
        if ordinals != assignments[0].ordinals:
            raise InvalidArgumentError(
                f"{assignments[0].owner} and {owner} device_assignment must be the same, got "
                f"devices {list(assignments[0].ordinals)} and {list(ordinals)}"
            )
    return assignments[0].ordinals if assignments else tuple(range(grid.size))
