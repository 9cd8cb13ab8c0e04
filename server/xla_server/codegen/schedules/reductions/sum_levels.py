"""Pairwise summation of long sums: short runs first, then runs of their results, and so on.

The error of a sum grows with the number of additions in sequence. Lengths of runs follow from sizes
alone, so the result does not depend on the number of threads.
"""

import dataclasses
import math
from collections.abc import Sequence

RUN = 64
"""Elements of a run, which are added in sequence."""

PARTS = 16
"""Partial results added in sequence: fewer than elements, as their rounding errors are larger."""

SHORTEST = 16
"""Elements of a run that covers whole inner loops, below which it includes more of the next."""


@dataclasses.dataclass(frozen=True, slots=True)
class SumLoop:
    """One loop of a pairwise sum: `length` iterations of loop number `loop`, in steps of `span`.

    If it `begins` a level, each of its steps has an accumulator of its own, which is then added to
    the accumulator outside.
    """

    loop: int
    length: int
    span: int
    begins: bool = False


def steps_of(sizes: Sequence[int], run: int = RUN, parts: int = PARTS) -> list[SumLoop]:
    """Return the loops, outermost first, of a pairwise sum over loops of these sizes."""
    steps: list[SumLoop] = []
    most, iterations, begins = run, 1, False
    for loop in reversed(range(len(sizes))):
        span = 1
        while iterations * (left := -(-sizes[loop] // span)) > most:
            if iterations < SHORTEST:
                fitting = max(2, most // iterations)
                even = -(-left // -(-left // fitting)) * span
                steps.append(SumLoop(loop, even, span, begins))
                span = even
            most, iterations, begins = parts, 1, True
        steps.append(SumLoop(loop, sizes[loop], span, begins))
        iterations, begins = iterations * left, False
    return steps[::-1]


def is_even(steps: Sequence[SumLoop], step: SumLoop) -> bool:
    """Return whether all steps over the same loop divide it evenly."""
    return all(other.length % other.span == 0 for other in steps if other.loop == step.loop)


def size_of(steps: Sequence[SumLoop], number: int) -> int:
    """Return the number of elements in one iteration of step number `number`."""
    inside = (-(-step.length // step.span) for step in steps[number + 1 :])
    return math.prod(inside)
