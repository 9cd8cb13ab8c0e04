"""Random graphs: 4 to 40 calls of jax.numpy on two matrices, whose results are used repeatedly."""

import math
from collections.abc import Callable

from tests.benchmarks.sweep.draw import Draw
from tests.benchmarks.sweep.graphs import moves, steps
from tests.benchmarks.sweep.graphs.graph import Graph, Made

STEPS: dict[Callable[[Draw, Graph], Made], float] = {
    steps.unary: 22,
    steps.binary: 26,
    steps.reduction: 16,
    steps.normalisation: 6,
    moves.transpose: 5,
    moves.reshape: 4,
    moves.broadcast_back: 4,
    moves.join: 6,
    moves.piece: 5,
    moves.roll: 3,
    moves.pad: 2,
    moves.running: 1.5,
    moves.product: 1.5,
}
"""Each kind of step with its weight."""


def graph(draw: Draw) -> str:
    """Draw a random graph."""
    drawn = Graph(draw)
    left = drawn.steps
    while left:
        made = draw.weighted(STEPS)(draw, drawn)
        if made is not None and math.prod(made[1]) <= drawn.limit:
            drawn.add(*made)
            left -= 1
    return drawn.result()
