import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xla_server.ir.affine import (
    ZERO,
    Affine,
    Modulus,
    Quotient,
    Variable,
    linear,
    multi_index,
    variable,
)


def at(index: Affine, values: dict[Variable, int]) -> int:
    """The number an index stands for."""
    total = index.constant
    for atom, factor in index.terms:
        if isinstance(atom, Variable):
            total += factor * values[atom]
        elif isinstance(atom, Quotient):
            total += factor * (at(atom.operand, values) // atom.divisor)
        else:
            assert isinstance(atom, Modulus)
            total += factor * (at(atom.operand, values) % atom.divisor)
    return total


sizes = st.lists(st.integers(1, 6), min_size=1, max_size=4)


@given(sizes)
def test_reading_a_merged_loop_apart_and_together_again_gives_the_loop(
    dimensions: list[int],
) -> None:
    loop = Variable(max(1, len(list(itertools.product(*map(range, dimensions))))), "i")
    assert linear(multi_index(variable(loop), dimensions), dimensions) == variable(loop)


@given(sizes)
def test_indices_stay_what_they_are_through_a_reshape(dimensions: list[int]) -> None:
    loops = [Variable(size, "i") for size in dimensions]
    index = [variable(loop) for loop in loops]
    total = 1
    for size in dimensions:
        total *= size
    halves = (2, total // 2) if total % 2 == 0 else (1, total)
    moved = multi_index(linear(index, dimensions), halves)
    for values in itertools.product(*map(range, dimensions)):
        place = dict(zip(loops, values, strict=True))
        number = at(linear(index, dimensions), place)
        assert (at(moved[0], place), at(moved[1], place)) == divmod(number, halves[1])


def test_a_split_that_divides_evenly_needs_no_division() -> None:
    outer, inner = Variable(4, "i"), Variable(6, "j")
    number = variable(outer) * 6 + variable(inner)
    assert number.floordiv(6) == variable(outer)
    assert number.mod(6) == variable(inner)
    assert number.mod(3).terms[0][0] == Modulus(variable(inner), 3)


def test_bounds_follow_the_signs_of_coefficients() -> None:
    index = variable(Variable(5, "i")) * -2 + 3
    assert (index.low, index.high) == (-5, 3)


@pytest.mark.parametrize("size", [0, 1])
def test_a_loop_of_one_trip_is_no_variable(size: int) -> None:
    assert variable(Variable(size, "i")) == ZERO
