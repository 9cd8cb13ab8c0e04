"""Random graphs: 4 to 40 calls of jax.numpy on two matrices, whose results are used repeatedly."""

import math
from collections.abc import Callable

from tests.benchmarks.sweep import graph_moves, graph_steps
from tests.benchmarks.sweep.draw import Draw
from tests.benchmarks.sweep.graph import Graph, Made

STEPS: dict[Callable[[Draw, Graph], Made], float] = {
    graph_steps.unary: 22,
    graph_steps.binary: 26,
    graph_steps.reduction: 16,
    graph_steps.normalisation: 6,
    graph_moves.transpose: 5,
    graph_moves.reshape: 4,
    graph_moves.broadcast_back: 4,
    graph_moves.join: 6,
    graph_moves.piece: 5,
    graph_moves.roll: 3,
    graph_moves.pad: 2,
    graph_moves.running: 1.5,
    graph_moves.product: 1.5,
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
