"""The grid of replicas and partitions that a program runs on, and groups of its participants.

Semantics: XLA's DeviceAssignment and CollectiveOpGroupMode. A participant is known by its flattened
id, `replica * partitions + partition`.
"""

import dataclasses
from collections.abc import Sequence

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.types.devices.replica_groups import GroupMode, Groups, ReplicaGroups

Pairs = tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceGrid:
    """`replicas` copies of a program, each of `partitions` parts.

    Raises InvalidArgumentError for a count below 1.
    """

    replicas: int = 1
    partitions: int = 1

    def __post_init__(self) -> None:
        if self.replicas < 1 or self.partitions < 1:
            raise InvalidArgumentError(
                "a program must have at least one replica and one partition, got "
                f"{self.replicas} x {self.partitions}"
            )

    @property
    def size(self) -> int:
        """The number of participants."""
        return self.replicas * self.partitions

    def flattened(self, replica: int, partition: int) -> int:
        """The flattened id of a participant."""
        return replica * self.partitions + partition

    def position(self, flattened: int) -> tuple[int, int]:
        """The replica and the partition of a flattened id."""
        return divmod(flattened, self.partitions)

    def __str__(self) -> str:
        return f"{self.replicas} replicas x {self.partitions} partitions"


ALONE = DeviceGrid()
"""One replica of one partition."""


def expand_groups(
    groups: ReplicaGroups, mode: GroupMode, grid: DeviceGrid, *, is_partial: bool = False
) -> Groups:
    """Return the groups as flattened ids, each in the order in which its members are combined.

    Where replicas are named and all their partitions take part, partitions vary fastest. With
    `is_partial` the groups need not name all.

    Raises:
        ShapeError: Ids are not the grid's, occur twice or are missing.
    """
    count = _count(mode, grid)
    if not groups.groups:
        if mode is GroupMode.FLATTENED_ID:
            raise ShapeError("replica groups must be listed for global device ids, got none")
        stated: Groups = (tuple(range(count)),)
    else:
        # XLA does not check groups other than that of the only participant either.
        own = tuple(group for group in groups.groups if 0 in group)
        stated = own if count == 1 and own else groups.groups
        numbers = [number for group in stated for number in group]
        if (
            not all(groups.groups)
            or len(set(numbers)) != len(numbers)
            or not all(0 <= number < count for number in numbers)
            or not (is_partial or len(numbers) == count)
        ):
            raise ShapeError(
                f"replica groups ({mode.value}) must name each id from 0 to {count - 1} "
                f"{'at most ' if is_partial else ''}once, got {groups} for {grid}"
            )
    replicas, partitions = range(grid.replicas), range(grid.partitions)
    at = grid.flattened
    if mode is GroupMode.CROSS_REPLICA:
        return tuple(tuple(at(r, p) for r in group) for p in partitions for group in stated)
    if mode is GroupMode.CROSS_PARTITION:
        return tuple(tuple(at(r, p) for p in group) for r in replicas for group in stated)
    if mode is GroupMode.CROSS_REPLICA_AND_PARTITION:
        return tuple(tuple(at(r, p) for r in group for p in partitions) for group in stated)
    return stated


def expand_pairs(pairs: Sequence[tuple[int, int]], mode: GroupMode, grid: DeviceGrid) -> Pairs:
    """Return the pairs (source, target) of a permutation as flattened ids.

    Raises:
        ShapeError: Ids are not the grid's, or a source or target is named twice.
    """
    count = _count(mode, grid)
    for role, numbers in (
        ("sources", [source for source, _ in pairs]),
        ("targets", [target for _, target in pairs]),
    ):
        if len(set(numbers)) != len(numbers) or not all(0 <= number < count for number in numbers):
            shown = ",".join(f"{{{source},{target}}}" for source, target in pairs[:16])
            raise ShapeError(
                f"{role} ({mode.value}) must be distinct and from 0 to {count - 1}, got pairs "
                f"{{{shown}{',...' if len(pairs) > 16 else ''}}} for {grid}"
            )
    at = grid.flattened
    if mode is GroupMode.CROSS_PARTITION:
        replicas = range(grid.replicas)
        return tuple((at(r, source), at(r, target)) for r in replicas for source, target in pairs)
    partitions = range(grid.partitions)
    return tuple((at(source, p), at(target, p)) for p in partitions for source, target in pairs)


def connected(pairs: Sequence[tuple[int, int]]) -> Groups:
    """The ids that pairs join, directly or over others, as groups in ascending order."""
    group_of: dict[int, set[int]] = {}
    for source, target in pairs:
        joined = group_of.get(source, {source}) | group_of.get(target, {target})
        for number in joined:
            group_of[number] = joined
    found = {min(group): tuple(sorted(group)) for group in group_of.values()}
    return tuple(found[first] for first in sorted(found))


def _count(mode: GroupMode, grid: DeviceGrid) -> int:
    """Return the number of ids that the groups of a mode name."""
    if mode is GroupMode.CROSS_PARTITION:
        return grid.partitions
    return grid.size if mode is GroupMode.FLATTENED_ID else grid.replicas
