"""List scheduling with soft dependences."""

import random

import pytest

from xla_server.passes.scheduling.list_scheduling import SoftDependence, schedule


def test_an_order_that_is_topological_stays() -> None:
    assert schedule([[], [0], [], [1, 2]], []) == [0, 1, 2, 3]


def test_nodes_come_after_their_predecessors() -> None:
    assert schedule([[2], [], [3], []], []) == [1, 3, 2, 0]


def test_a_soft_dependence_delays_one_node() -> None:
    assert schedule([[], [], [1], [], []], [SoftDependence(1, (3,), 1)]) == [0, 3, 1, 2, 4]


def test_a_node_waits_for_all_of_its_soft_dependences() -> None:
    soft = [SoftDependence(0, (2,), 1), SoftDependence(0, (1, 3), 1)]
    assert schedule([[], [], [], [], []], soft) == [1, 2, 3, 0, 4]


def test_a_soft_dependence_on_nothing_is_satisfied() -> None:
    assert schedule([[], []], [SoftDependence(0, (), 1)]) == [0, 1]


@pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 1)])
def test_the_higher_priority_of_a_cycle_is_kept(first: int, second: int) -> None:
    order = schedule([[], []], [SoftDependence(0, (1,), first), SoftDependence(1, (0,), second)])
    assert order == ([1, 0] if first > second else [0, 1])


def test_a_soft_dependence_against_predecessors_is_dropped_and_delays_nothing() -> None:
    assert schedule([[], [0], [1], []], [SoftDependence(0, (2, 3), 9)]) == [0, 1, 2, 3]


def test_only_the_lowest_priority_of_a_cycle_is_dropped() -> None:
    soft = [SoftDependence(0, (3, 4), 1), SoftDependence(2, (0,), 2), SoftDependence(3, (2,), 2)]
    assert schedule([[], [], [], [], []], soft) == [0, 1, 2, 3, 4]


def test_many_cycles_lose_one_soft_dependence_each() -> None:
    # Pairs that exclude each other; each pair needs the next.
    pairs = 200
    before: list[list[int]] = [[2 * n + 2, 2 * n + 3] for n in range(pairs)]
    before = [part for part in before for _ in range(2)]
    before[-2:] = [[], []]
    soft = [SoftDependence(2 * n, (2 * n + 1,), 1) for n in range(pairs)]
    soft += [SoftDependence(2 * n + 1, (2 * n,), 2) for n in range(pairs)]
    expected = [2 * n + part for n in reversed(range(pairs)) for part in range(2)]
    assert schedule(before, soft) == expected


def _random(seed: int) -> tuple[random.Random, list[int], list[list[int]]]:
    """Return a generator, nodes in a topological order, and the predecessors of each node."""
    chance = random.Random(seed)
    count = chance.randrange(2, 40)
    names = chance.sample(range(count), count)
    before: list[list[int]] = [[] for _ in range(count)]
    for place, node in enumerate(names):
        before[node] = chance.sample(names[:place], min(place, chance.randrange(4)))
    return chance, names, before


def _assert_ordered(order: list[int], before: list[list[int]]) -> dict[int, int]:
    positions = {node: place for place, node in enumerate(order)}
    assert sorted(order) == list(range(len(before)))
    assert all(positions[a] < positions[b] for b, nodes in enumerate(before) for a in nodes)
    return positions


@pytest.mark.parametrize("seed", range(40))
def test_soft_dependences_without_cycles_are_all_kept(seed: int) -> None:
    chance, names, before = _random(seed)
    soft = []
    for _ in names:
        place = chance.randrange(1, len(names))
        after = chance.sample(names[:place], min(place, 3))
        soft.append(SoftDependence(names[place], tuple(after), chance.random()))
    positions = _assert_ordered(schedule(before, soft), before)
    assert all(positions[a] < positions[each.node] for each in soft for a in each.after)


@pytest.mark.parametrize("seed", range(40))
def test_cyclic_soft_dependences_leave_a_topological_order(seed: int) -> None:
    chance, names, before = _random(seed)
    soft = []
    for _ in names:
        node, *after = chance.sample(names, min(len(names), 3))
        soft.append(SoftDependence(node, tuple(after), chance.randrange(3)))
    _assert_ordered(schedule(before, soft), before)
