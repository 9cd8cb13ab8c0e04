import math
from collections import Counter

import jax
import pytest
from jax.extend.core import ClosedJaxpr

from tests.benchmarks.sweep.catalogue import FAMILIES, GRAPHS, chosen, family_of, program
from tests.benchmarks.sweep.draw import Draw
from tests.benchmarks.sweep.program import MAX_ELEMENTS, Program

LARGEST_VALUE = 2 * MAX_ELEMENTS
"""Elements of a value inside a program."""

NUMBERS = range(600)
OF_EACH = 3


def traced(drawn: Program) -> ClosedJaxpr:
    with jax.enable_x64(drawn.is_wide):
        shapes = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in drawn.parameters]
        return jax.make_jaxpr(drawn.function)(*shapes)


@pytest.mark.parametrize("family", [GRAPHS, *FAMILIES])
def test_every_family_makes_valid_programs_of_bounded_sizes(family: str) -> None:
    numbers = [number for number in NUMBERS if family_of(number) == family]
    for number in numbers[:OF_EACH]:
        drawn = program(7, number)
        assert drawn.family == family
        jaxpr = traced(drawn)
        values = [var.aval for equation in jaxpr.eqns for var in equation.outvars]
        values += [var.aval for var in jaxpr.jaxpr.invars]
        assert values
        assert max(math.prod(value.shape) for value in values) <= LARGEST_VALUE


def test_a_seed_and_a_number_give_the_same_program_and_arguments() -> None:
    for number in range(0, 100, 7):
        first, second = program(3, number), program(3, number)
        assert first == second
        pairs = zip(first.arguments(3), second.arguments(3), strict=True)
        assert all(one.tobytes() == other.tobytes() for one, other in pairs)


def test_other_seeds_and_numbers_give_other_programs() -> None:
    assert program(1, 0) != program(2, 0)
    assert program(1, 0) != program(1, 1)


def test_a_known_program_stays_the_same() -> None:
    # A seed's program must not depend on the process: Python's own hashes do.
    assert Draw(1, 2).integer(0, 10**9) == 117731873


def test_arguments_have_the_types_and_shapes_of_parameters() -> None:
    for number in range(40):
        drawn = program(5, number)
        for array, parameter in zip(drawn.arguments(5), drawn.parameters, strict=True):
            assert array.shape == parameter.shape
            assert array.dtype.name == parameter.dtype


def test_families_take_turns_and_graphs_are_two_in_five() -> None:
    counts = Counter(map(family_of, NUMBERS))
    assert counts.pop(GRAPHS) == len(NUMBERS) * 2 // 5
    assert set(counts) == set(FAMILIES)
    assert max(counts.values()) - min(counts.values()) <= 1


def test_words_choose_numbers_and_families() -> None:
    assert list(chosen([], 10)) == list(range(10))
    assert list(chosen(["1234"], 10)) == [1234]
    assert all(family_of(number) == "loop" for number in chosen(["loop"], 600))
    assert next(chosen(["loop", "3"], 600)) == 3
    assert not list(chosen(["nothing"], 600))
