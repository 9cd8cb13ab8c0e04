"""Irrational numbers as sums of floats."""

import math
from fractions import Fraction

import pytest

from xla_server.codegen.functions.real.irrational import (
    HALF_PI_PARTS,
    LN2,
    LN2_PARTS,
    PI,
    leading,
    two_over_pi,
)


@pytest.mark.parametrize(("name", "bits"), [("f32", 24), ("f64", 53)])
def test_two_floats_are_as_near_as_twice_the_bits(name: str, bits: int) -> None:
    first, second = map(Fraction, HALF_PI_PARTS[name])
    assert abs(first + second - PI / 2) < PI / 2 / 2 ** (2 * bits)


@pytest.mark.parametrize(("name", "bits", "exponent"), [("f32", 24, 1 << 10), ("f64", 53, 1 << 13)])
def test_the_first_part_of_ln_2_times_an_exponent_is_exact(
    name: str, bits: int, exponent: int
) -> None:
    first, second = map(Fraction, LN2_PARTS[name])
    assert (first * (exponent - 1)).numerator.bit_length() <= bits
    assert abs(first + second - LN2) < LN2 / 2 ** (2 * bits - 16)


def test_leading_bits_are_cut_off() -> None:
    assert leading(Fraction(0b101101), 3) in (0b101000, 0b100000)
    assert leading(Fraction(-0b101101), 3) == -leading(Fraction(0b101101), 3)
    assert leading(Fraction(0), 3) == 0


def test_two_over_pi_has_all_of_its_digits() -> None:
    exact = 2 / PI * 2**200
    assert two_over_pi(200) == math.floor(exact)
