"""Fits of polynomials, of few coefficients, which take less time than those that functions use."""

from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from tests.ulps.minimax import remez, rounded_in_turn


def exp(x: Decimal) -> Decimal:
    return x.exp()


def one(_: Decimal) -> Decimal:
    return Decimal(1)


def largest_error(coefficients: Sequence[Decimal]) -> float:
    points = np.linspace(0, 1, 1001)
    found = np.polynomial.polynomial.polyval(points, [float(each) for each in coefficients])
    return float(np.abs(found - np.exp(points)).max())


def test_a_fit_has_the_error_that_it_says() -> None:
    coefficients, error = remez(exp, one, 0.0, 1.0, 5)
    assert abs(largest_error(coefficients) / error - 1) < 1e-3
    assert 1e-5 < error < 1e-4


def test_known_coefficients_are_kept_and_the_others_fitted_to_what_is_left() -> None:
    known = [Decimal(1), Decimal("1.01")]
    coefficients, error = remez(exp, one, 0.0, 1.0, 4, known)
    assert coefficients[:2] == known
    assert len(coefficients) == 4
    free, _ = remez(exp, one, 0.0, 1.0, 4)
    assert largest_error(coefficients) < largest_error([*known, *free[2:]]) / 4
    assert abs(largest_error(coefficients) / error - 1) < 1e-3


def test_coefficients_that_are_rounded_in_turn_are_numbers_of_f32() -> None:
    coefficients = rounded_in_turn(exp, one, 0.0, 1.0, 4)
    assert [float(np.float32(float(each))) for each in coefficients] == list(
        map(float, coefficients)
    )
    _, error = remez(exp, one, 0.0, 1.0, 4)
    assert largest_error(coefficients) < error + 2.0**-24
