"""Groups of the replicas or partitions that take part in a collective together.

Semantics: XLA's ReplicaGroup, its two compact forms, and CollectiveOpGroupMode. Writers of
different ages state the groups in different fields; what is read in one form is written in it.
"""

import dataclasses
import enum
from collections.abc import Iterable, Sequence

from xla_contract.errors import ShapeError

Groups = tuple[tuple[int, ...], ...]


class GroupForm(enum.Enum):
    """The field of HloInstructionProto that states the groups."""

    FIELD = "replica_groups"
    LIST = "collective_device_list"
    LISTED_IOTA = "collective_device_list with iota_replica_group_list"
    IOTA = "iota_collective_device_list"
    MESH_AXES = "mesh_axes_replica_group_list"


@dataclasses.dataclass(frozen=True, slots=True)
class ReplicaGroups:
    """The groups, each in its order; no groups mean one group of all.

    `statement` is the serialised message of a compact form.
    """

    groups: Groups = ()
    form: GroupForm = GroupForm.FIELD
    statement: bytes = b""

    @classmethod
    def of(cls, groups: Iterable[Iterable[int]]) -> "ReplicaGroups":
        """Groups as plain lists, in the field every reader knows."""
        return cls(tuple(tuple(int(number) for number in group) for group in groups))

    @property
    def size(self) -> int | None:
        """The size of the first group; None if one group of all is meant."""
        return len(self.groups[0]) if self.groups else None

    def __str__(self) -> str:
        if self.form in (GroupForm.IOTA, GroupForm.LISTED_IOTA, GroupForm.MESH_AXES):
            return f"{len(self.groups)} groups of {self.size} as {self.form.value}"
        shown = ",".join(braced(group) for group in self.groups[:8])
        return f"{{{shown}{',...' if len(self.groups) > 8 else ''}}}"


class GroupMode(enum.Enum):
    """Meaning of the ids in a group."""

    CROSS_REPLICA = "cross-replica"
    CROSS_PARTITION = "cross-partition"
    CROSS_REPLICA_AND_PARTITION = "cross-replica-and-partition"
    FLATTENED_ID = "flattened-id"


def group_mode(channel_id: int, use_global_device_ids: bool | None) -> GroupMode:
    """Return the meaning of the ids in a collective's groups.

    Args:
        channel_id: The channel; there is one if it is above 0.
        use_global_device_ids: The attribute; None for operations without it.

    Raises:
        ShapeError: Global device ids come without a channel.
    """
    if channel_id <= 0:
        if use_global_device_ids:
            raise ShapeError(
                "global device ids must come with a channel, got use_global_device_ids=true and "
                f"channel_id={channel_id}"
            )
        return GroupMode.CROSS_REPLICA
    if use_global_device_ids is None:
        return GroupMode.CROSS_PARTITION
    if use_global_device_ids:
        return GroupMode.FLATTENED_ID
    return GroupMode.CROSS_REPLICA_AND_PARTITION


def check_groups(groups: ReplicaGroups, mode: GroupMode, *, uniform: bool = True) -> None:
    """Raise ShapeError unless the groups divide the ids 0 to n - 1 among them.

    Args:
        groups: The groups; flattened ids must be listed.
        mode: Meaning of the ids.
        uniform: True if all groups must have one size.

    Raises:
        ShapeError: Groups are missing, empty, overlapping, incomplete or of different sizes.
    """
    if not groups.groups:
        if mode is GroupMode.FLATTENED_ID:
            raise ShapeError("replica groups must be listed for global device ids, got none")
        return
    if not all(groups.groups):
        raise ShapeError(f"replica groups must not be empty, got {groups}")
    numbers = [number for group in groups.groups for number in group]
    if sorted(numbers) != list(range(len(numbers))):
        raise ShapeError(
            f"replica groups must name each id from 0 to {len(numbers) - 1} once, got {groups}"
        )
    if uniform and any(len(group) != groups.size for group in groups.groups):
        raise ShapeError(f"replica groups must have one size, got {groups}")


def braced(numbers: Sequence[int]) -> str:
    """Return numbers as text in braces, the first 16 of them."""
    shown = ",".join(map(str, numbers[:16]))
    return f"{{{shown}{',...' if len(numbers) > 16 else ''}}}"
