"""The tree of a long sum: what is added in sequence is short, and every element is there once."""

import itertools
import math

import pytest

from xla_server.codegen.schedules.reductions.sum_levels import (
    PARTS,
    RUN,
    SumLoop,
    size_of,
    steps_of,
)

SIZES = [
    (1,), (64,), (65,), (100,), (1021,), (16384,), (300_000,), (64, 196), (8, 28, 28), (300, 3),
    (6000, 4, 3), (3, 5000), (40, 40, 40), (17, 2, 1000), (2, 2, 2, 2, 2, 2, 2, 2),
]  # fmt: skip


def _elements(steps: list[SumLoop], sizes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the lengths that the loops pass, in order."""
    found: list[dict[int, tuple[int, int]]] = [{n: (0, size) for n, size in enumerate(sizes)}]
    for step in steps:
        found = [
            {**bounds, step.loop: (at, min(at + step.span, bounds[step.loop][1]))}
            for bounds in found
            for at in range(*bounds[step.loop], step.span)
        ]
    return [tuple(bounds[n][0] for n in range(len(sizes))) for bounds in found]


@pytest.mark.parametrize("sizes", SIZES)
def test_every_element_once(sizes: tuple[int, ...]) -> None:
    expected = list(itertools.product(*map(range, sizes)))
    assert sorted(_elements(steps_of(sizes), sizes)) == expected


@pytest.mark.parametrize("sizes", [*SIZES, (1 << 30,), (1 << 20, 3)])
def test_nothing_long_is_added_in_sequence(sizes: tuple[int, ...]) -> None:
    iterations, levels = [1], 0
    for step in steps_of(sizes):
        iterations[-1] *= -(-step.length // step.span)
        if step.begins:
            iterations.append(1)
            levels += 1
    assert all(each <= PARTS for each in iterations[:-1])
    assert iterations[-1] <= RUN
    # Runs are long enough that there are few of them.
    assert levels <= max(0, math.ceil(math.log(math.prod(sizes) / RUN, PARTS / 2)))


def test_elements_of_a_turn() -> None:
    steps = steps_of((6000, 4, 3))
    assert size_of(steps, len(steps) - 1) == 1
    assert size_of(steps, 0) >= steps[0].span * 12
