"""Every family by its name, and the program of a number."""

from collections.abc import Callable, Iterator, Sequence

from tests.benchmarks.sweep.draw import Draw
from tests.benchmarks.sweep.families import (
    algorithms,
    control,
    movement,
    products,
    reductions,
    windows,
)
from tests.benchmarks.sweep.graphs.drawn import graph
from tests.benchmarks.sweep.program import Program

GRAPHS = "graph"

FAMILIES: dict[str, Callable[[Draw], str]] = {
    **reductions.FAMILIES,
    **windows.FAMILIES,
    **movement.FAMILIES,
    **products.FAMILIES,
    **algorithms.FAMILIES,
    **control.FAMILIES,
}
"""Generators of programs that have a subject each."""

_NAMES = tuple(FAMILIES)


def family_of(number: int) -> str:
    """Return the family of a number: two graphs, then three of the other families in turn."""
    block, place = divmod(number, 5)
    return GRAPHS if place < 2 else _NAMES[(3 * block + place - 2) % len(_NAMES)]


def program(seed: int, number: int) -> Program:
    """Return the program that a seed has at a number."""
    family = family_of(number)
    draw = Draw(seed, number)
    return draw.program(family, (graph if family == GRAPHS else FAMILIES[family])(draw))


def chosen(words: Sequence[str], count: int) -> Iterator[int]:
    """Return the numbers below `count`, or of these the ones of some families, or just some.

    A word is a number, which may be any, or a part of the name of a family.
    """
    numbers = [int(word) for word in words if word.isdigit()]
    names = [word for word in words if not word.isdigit()]
    yield from numbers
    for number in range(count):
        if number in numbers or (words and not names):
            continue
        if not names or any(name in family_of(number) for name in names):
            yield number
