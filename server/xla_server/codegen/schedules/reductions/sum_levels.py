"""Pairwise summation of long sums: short runs first, then runs of their results, and so on.

Errors of a sum grow with the number of sequential additions. Lengths follow from sizes alone, so
sums are the same for any number of threads.
"""

import dataclasses
import math
from collections.abc import Sequence

RUN = 64
"""Number of elements added in sequence."""

PARTS = 16
"""Number of partial results added in sequence: fewer, as their errors count most."""

SHORTEST = 16
"""Elements of a run of whole inner loops below which it also has iterations of the next loop."""


@dataclasses.dataclass(frozen=True, slots=True)
class SumLoop:
    """One loop of a sum over loops: over `length` iterations of loop number `loop`, by `span`.

    If it `begins`, each iteration computes a sum of its own, which is then added to the outer one.
    """

    loop: int
    length: int
    span: int
    begins: bool = False


def steps_of(sizes: Sequence[int], run: int = RUN, parts: int = PARTS) -> list[SumLoop]:
    """The loops, outermost first, of a sum over loops of these sizes."""
    steps: list[SumLoop] = []
    most, turns, begins = run, 1, False
    for loop in reversed(range(len(sizes))):
        span = 1
        while turns * (left := -(-sizes[loop] // span)) > most:
            if turns < SHORTEST:
                fitting = max(2, most // turns)
                even = -(-left // -(-left // fitting)) * span
                steps.append(SumLoop(loop, even, span, begins))
                span = even
            most, turns, begins = parts, 1, True
        steps.append(SumLoop(loop, sizes[loop], span, begins))
        turns, begins = turns * left, False
    return steps[::-1]


def is_even(steps: Sequence[SumLoop], step: SumLoop) -> bool:
    """Return whether all iterations of the loop of a step are equally long."""
    return all(other.length % other.span == 0 for other in steps if other.loop == step.loop)


def turn_of(steps: Sequence[SumLoop], number: int) -> int:
    """The number of elements of one iteration of a step."""
    inside = (-(-step.length // step.span) for step in steps[number + 1 :])
    return math.prod(inside)
