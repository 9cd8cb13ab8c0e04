"""Replica groups as flattened ids of a device grid."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.types.devices.device_grid import (
    ALONE,
    DeviceGrid,
    connected,
    expand_groups,
    expand_pairs,
)
from xla_contract.types.devices.replica_groups import GroupMode, ReplicaGroups

GRID = DeviceGrid(2, 3)
EMPTY = ReplicaGroups()


@pytest.mark.parametrize(
    ("mode", "groups", "expanded"),
    [
        ("CROSS_REPLICA", [], ((0, 3), (1, 4), (2, 5))),
        ("CROSS_REPLICA", [[1, 0]], ((3, 0), (4, 1), (5, 2))),
        ("CROSS_REPLICA", [[1], [0]], ((3,), (0,), (4,), (1,), (5,), (2,))),
        ("CROSS_PARTITION", [], ((0, 1, 2), (3, 4, 5))),
        ("CROSS_PARTITION", [[2, 0], [1]], ((2, 0), (1,), (5, 3), (4,))),
        ("CROSS_REPLICA_AND_PARTITION", [], ((0, 1, 2, 3, 4, 5),)),
        ("CROSS_REPLICA_AND_PARTITION", [[1, 0]], ((3, 4, 5, 0, 1, 2),)),
        ("CROSS_REPLICA_AND_PARTITION", [[1], [0]], ((3, 4, 5), (0, 1, 2))),
        ("FLATTENED_ID", [[5, 1], [0, 2, 3, 4]], ((5, 1), (0, 2, 3, 4))),
    ],
)
def test_groups_of_each_mode(
    mode: str, groups: list[list[int]], expanded: tuple[tuple[int, ...], ...]
) -> None:
    assert expand_groups(ReplicaGroups.of(groups), GroupMode[mode], GRID) == expanded


@pytest.mark.parametrize(
    ("mode", "groups"),
    [
        ("CROSS_REPLICA", [[0]]),
        ("CROSS_REPLICA", [[0, 2]]),
        ("CROSS_REPLICA", [[0, 1], [1]]),
        ("CROSS_REPLICA", [[0, 1], []]),
        ("CROSS_PARTITION", [[0, 1]]),
        ("CROSS_REPLICA_AND_PARTITION", [[0, 1, 2]]),
        ("FLATTENED_ID", [[0, 1, 2, 3, 4]]),
        ("FLATTENED_ID", []),
    ],
)
def test_groups_that_do_not_fit_the_grid(mode: str, groups: list[list[int]]) -> None:
    with pytest.raises(ShapeError, match=r"must name each id|must be listed"):
        expand_groups(ReplicaGroups.of(groups), GroupMode[mode], GRID)


def test_groups_beside_that_of_the_only_replica_are_not_looked_at() -> None:
    mode = GroupMode.CROSS_REPLICA
    assert expand_groups(ReplicaGroups.of([[1], [0], [2, 3]]), mode, ALONE) == ((0,),)
    for groups in ([[0, 1]], [[1]]):
        with pytest.raises(ShapeError, match="must name each id from 0 to 0 once"):
            expand_groups(ReplicaGroups.of(groups), mode, ALONE)


def test_partial_groups_may_miss_ids_and_not_invent_them() -> None:
    mode = GroupMode.CROSS_PARTITION
    partial = expand_groups(ReplicaGroups.of([[2, 0]]), mode, GRID, is_partial=True)
    assert partial == ((2, 0), (5, 3))
    with pytest.raises(ShapeError, match=r"at most once, got \{\{3\}\} for 2 replicas x 3 part"):
        expand_groups(ReplicaGroups.of([[3]]), mode, GRID, is_partial=True)


def test_pairs_of_both_modes() -> None:
    assert expand_pairs([(0, 1), (2, 2)], GroupMode.CROSS_PARTITION, GRID) == (
        (0, 1),
        (2, 2),
        (3, 4),
        (5, 5),
    )
    assert expand_pairs([(0, 1)], GroupMode.CROSS_REPLICA, GRID) == ((0, 3), (1, 4), (2, 5))


@pytest.mark.parametrize("pairs", [[(0, 3)], [(-1, 0)], [(0, 1), (0, 2)], [(0, 1), (2, 1)]])
def test_pairs_that_do_not_fit_the_grid(pairs: list[tuple[int, int]]) -> None:
    with pytest.raises(ShapeError, match="must be distinct and from 0 to 2"):
        expand_pairs(pairs, GroupMode.CROSS_PARTITION, GRID)


def test_chains_and_cycles_are_connected() -> None:
    assert connected([(0, 4), (4, 2), (5, 5), (1, 3), (3, 1)]) == ((0, 2, 4), (1, 3), (5,))
    assert connected([]) == ()


@given(st.integers(1, 5), st.integers(1, 5))
def test_empty_groups_divide_all_participants_in_every_mode(replicas: int, partitions: int) -> None:
    grid = DeviceGrid(replicas, partitions)
    for mode in set(GroupMode) - {GroupMode.FLATTENED_ID}:
        ids = [number for group in expand_groups(EMPTY, mode, grid) for number in group]
        assert sorted(ids) == list(range(grid.size))
    assert all(grid.flattened(*grid.position(number)) == number for number in range(grid.size))


def test_a_grid_has_a_participant() -> None:
    assert ALONE.size == 1
    with pytest.raises(InvalidArgumentError, match="got 0 x 3"):
        DeviceGrid(0, 3)
