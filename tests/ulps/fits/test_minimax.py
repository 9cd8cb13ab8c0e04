"""Fits of polynomials, of few coefficients, which take less time than those that functions use."""

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
from numpy.polynomial.polynomial import polyval

from tests.ulps.fits.minimax import remez


def exp(x: Decimal) -> Decimal:
    return x.exp()


def one(_: Decimal) -> Decimal:
    return Decimal(1)


def largest_error(coefficients: Sequence[Decimal]) -> float:
    points = np.linspace(0, 1, 1001)
    found = polyval(points, [float(each) for each in coefficients])
    return float(np.abs(found - np.exp(points)).max())


def test_a_fit_has_the_error_that_it_says() -> None:
    coefficients, error = remez(exp, one, 0.0, 1.0, 5)
    assert abs(largest_error(coefficients) / error - 1) < 1e-3
    assert 1e-5 < error < 1e-4


def test_a_ratio_has_the_error_that_it_says_and_less_than_a_polynomial_of_as_many_terms() -> None:
    found, error = remez(exp, one, 0.0, 1.0, 3, divisor=3)
    above, below = ([float(each) for each in part] for part in (found[:3], found[3:]))
    points = np.linspace(0, 1, 1001)
    ratio = polyval(points, above) / polyval(points, below)
    assert below[0] == 1
    assert abs(float(np.abs(ratio - np.exp(points)).max()) / error - 1) < 1e-3
    assert error < remez(exp, one, 0.0, 1.0, 5)[1] / 4
