import math

import jax

from tests.benchmarks.sweep.draw import Draw
from tests.benchmarks.sweep.graphs import moves, steps
from tests.benchmarks.sweep.graphs.drawn import STEPS, graph
from tests.benchmarks.sweep.graphs.graph import Graph, broadcast
from tests.benchmarks.sweep.program import MAX_ELEMENTS


def grown(number: int) -> tuple[Draw, Graph]:
    draw = Draw(11, number)
    made = Graph(draw)
    for step in STEPS:
        new = step(draw, made)
        if new is not None and math.prod(new[1]) <= made.limit:
            made.add(*new)
    return draw, made


def test_shapes_of_steps_are_those_of_jax() -> None:
    for number in range(12):
        draw, made = grown(number)
        names = [value.name for value in made.values]
        drawn = draw.program("graph", f"[{', '.join(names)}]")
        with jax.enable_x64(drawn.is_wide):
            shapes = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in drawn.parameters]
            found = jax.eval_shape(drawn.function, *shapes)
        assert [each.shape for each in found] == [value.shape for value in made.values]


def test_matrices_and_numbers_of_calls_are_within_bounds() -> None:
    for number in range(200):
        draw = Draw(12, number)
        drawn = draw.program("graph", graph(draw))
        assert 1 <= len(drawn.lines) <= 40
        assert {len(parameter.shape) for parameter in drawn.parameters} == {2}
        assert all(2**7 <= math.prod(p.shape) <= MAX_ELEMENTS for p in drawn.parameters)


def test_graphs_use_values_repeatedly() -> None:
    draw = Draw(13, 0)
    text = draw.program("graph", graph(draw)).source
    assert any(text.count(f"v{number} ") + text.count(f"v{number})") > 2 for number in range(40))


def test_every_step_is_in_the_table() -> None:
    for module in (steps, moves):
        made = {
            each
            for each in vars(module).values()
            if callable(each) and getattr(each, "__module__", "") == module.__name__
        }
        assert made <= set(STEPS)


def test_shapes_broadcast_as_in_numpy() -> None:
    assert broadcast((3, 1), (4,)) == (3, 4)
    assert broadcast((), (2, 5)) == (2, 5)
    assert broadcast((2, 3), (3, 2)) is None
