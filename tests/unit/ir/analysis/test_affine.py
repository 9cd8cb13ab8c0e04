import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.ir.indices import at
from xla_server.ir.analysis.affine import (
    ZERO,
    Affine,
    Modulus,
    Quotient,
    Variable,
    linear,
    multi_index,
    variable,
)

sizes = st.lists(st.integers(1, 6), min_size=1, max_size=4)


@given(sizes)
def test_reading_a_merged_loop_apart_and_together_again_gives_the_loop(
    dimensions: list[int],
) -> None:
    loop = Variable(max(1, len(list(itertools.product(*map(range, dimensions))))), "i")
    assert linear(multi_index(variable(loop), dimensions), dimensions) == variable(loop)


@st.composite
def indices(draw: st.DrawFn, loops: Sequence[Variable]) -> Affine:
    """Draw an index that is never negative: sums, multiples, quotients and moduli of loops."""
    index = ZERO
    for loop in loops:
        index = index + variable(loop) * draw(st.integers(0, 6)) + draw(st.integers(0, 9))
        divisor = draw(st.integers(1, 7))
        part = index.mod(divisor) if draw(st.booleans()) else index.floordiv(divisor)
        index = draw(st.sampled_from((index, part, part + index, part * 2)))
    return index


LOOPS = tuple(Variable(size, name) for name, size in (("i", 3), ("j", 4), ("k", 5)))


@given(indices(LOOPS), indices(LOOPS), st.integers(-3, 3), st.integers(1, 8))
def test_operations_are_those_of_numbers(
    left: Affine, right: Affine, factor: int, divisor: int
) -> None:
    computed = (left + right * factor, left.floordiv(divisor), left.mod(divisor))
    for values in itertools.product(*(range(loop.size) for loop in LOOPS)):
        position = dict(zip(LOOPS, values, strict=True))
        a, b = at(left, position), at(right, position)
        assert [at(index, position) for index in computed] == [
            a + b * factor,
            a // divisor,
            a % divisor,
        ]
        assert all(index.low <= at(index, position) <= index.high for index in computed)


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
        position = dict(zip(loops, values, strict=True))
        number = at(linear(index, dimensions), position)
        assert (at(moved[0], position), at(moved[1], position)) == divmod(number, halves[1])


def test_a_split_that_divides_evenly_needs_no_division() -> None:
    outer, inner = Variable(4, "i"), Variable(6, "j")
    number = variable(outer) * 6 + variable(inner)
    assert number.floordiv(6) == variable(outer)
    assert number.mod(6) == variable(inner)
    assert number.mod(3).terms[0][0] == Modulus(variable(inner), 3)


def test_quotients_and_moduli_have_no_factor_in_common() -> None:
    loop = variable(Variable(100, "i"))
    number = loop * 6 + 5
    assert number.mod(50) == Affine(1, ((Modulus(loop * 3 + 2, 25), 2),))
    assert number.floordiv(50) == Affine(0, ((Quotient(loop * 3 + 2, 25), 1),))
    assert number.floordiv(50) * 50 + number.mod(50) == number


def test_bounds_follow_the_signs_of_coefficients() -> None:
    index = variable(Variable(5, "i")) * -2 + 3
    assert (index.low, index.high) == (-5, 3)


@pytest.mark.parametrize("size", [0, 1])
def test_a_loop_of_one_iteration_is_no_variable(size: int) -> None:
    assert variable(Variable(size, "i")) == ZERO


def test_a_coefficient_is_that_of_the_atom_itself() -> None:
    first, second = Variable(4, "i"), Variable(4, "j")
    index = variable(first) * 3 + 5
    assert (index.coefficient(first), index.coefficient(second)) == (3, 0)
