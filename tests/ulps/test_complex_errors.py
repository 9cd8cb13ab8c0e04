"""Every function of complex numbers is within the documented bound, on both platforms."""

from typing import Any

import numpy as np
import pytest

from tests.ulps.complex_errors import (
    BOUND,
    DTYPE,
    OPCODES,
    REFERENCE,
    computed,
    errors,
    operands_of,
    worst,
)
from tests.ulps.exact_sums import WIDE
from xla_contract.ops.elementwise.elementwise import BINARY, UNARY
from xla_contract.types.element_type import ElementType

COUNT = 8_000
EXACT = {"imag", "maximum", "minimum", "negate", "real"}
"""Operations that move parts or change their signs."""


def test_every_function_has_a_reference() -> None:
    kinds = {ElementType.C64, ElementType.C128}
    rows = {**UNARY, **BINARY}.items()
    assert {str(opcode) for opcode, row in rows if kinds & {*row.members}} == {*REFERENCE, *EXACT}


def assert_near(opcode: str, kind: str, operands: list[Any]) -> None:
    assert worst(opcode, kind, operands)[0] <= BOUND


@pytest.mark.parametrize("kind", ["c64", "c128"])
@pytest.mark.parametrize("opcode", OPCODES)
def test_functions_are_within_the_bound(opcode: str, kind: str) -> None:
    assert_near(opcode, kind, operands_of(opcode, kind, COUNT, 1))


@pytest.mark.parametrize("kind", ["c64", "c128"])
def test_logarithms_near_one(kind: str) -> None:
    turns = np.linspace(-np.pi, np.pi, 4001)
    for distance in (0, 1e-15, 1e-10, 1e-6, 1e-3, 0.1, 0.29):
        on_circle = np.exp(1j * turns) * (1 + distance)
        around = 1 + distance * np.exp(1j * turns)
        for z in (on_circle, around):
            assert_near("log", kind, [z.astype(np.complex64 if kind == "c64" else np.complex128)])


def test_tangents_where_a_quotient_by_one_has_most_roundings() -> None:
    z = 1e-7 + 1j * np.linspace(0.75, 0.8, COUNT)
    assert_near("tanh", "c128", [z])
    assert_near("tan", "c128", [z * 1j])


def test_logistic_near_its_poles() -> None:
    turns = np.exp(1j * np.linspace(-np.pi, np.pi, 2001))
    for distance in (1e-9, 1e-5, 1e-2):
        for pole in (np.pi, -np.pi, 3 * np.pi):
            operand = distance * turns + 1j * pole
            result = computed("logistic", [operand])
            z = operand.astype(WIDE)
            a, b = -z.real, -z.imag
            below = np.empty(z.shape, WIDE)
            below.real = 2 * np.cos(b / 2) ** 2 + np.cos(b) * np.expm1(a)
            below.imag = np.exp(a) * np.sin(b)
            exact = 1 / below
            for each in result:
                assert float(np.max(errors(each, exact, "c128"))) <= BOUND


def test_logistic_where_the_rounding_of_its_exponential_shows_most() -> None:
    # The largest error of 262,144 samples while e^z was within 1 ULP: 4.8.
    z = np.array([-1.1202693866450293 - 2.9659703239292705j])
    assert_near("logistic", "c128", [z])


SIZES = {"c64": (1e-18, 1e-9, 1e9, 1e18), "c128": (1e-280, 1e-150, 1e-9, 1e9, 1e150, 1e300)}


@pytest.mark.parametrize("kind", ["c64", "c128"])
def test_angles_of_numbers_of_any_size(kind: str) -> None:
    random = np.random.default_rng(5)
    for size in SIZES[kind]:
        y, x = (samples_of_size(random, size), samples_of_size(random, 1))
        for operands in ((y, x), (x, y), (y, y[::-1])):
            assert_near("atan2", kind, [z.astype(DTYPE[kind]) for z in operands])


def samples_of_size(random: np.random.Generator, size: float) -> Any:
    """Numbers in all directions, whose sums and differences are no larger than `size`."""
    return size / 8 * (random.standard_normal(500) + 1j * random.standard_normal(500))


@pytest.mark.parametrize("kind", ["c64", "c128"])
def test_angles_of_real_numbers_are_those_of_their_signs(kind: str) -> None:
    values = np.array([3, -3, 1, -1, 0.0], DTYPE[kind])
    y, x = (part.reshape(-1) for part in np.meshgrid(values, values))
    ordinary = (y != 0) | (x > 0)
    y, x = y[ordinary], x[ordinary]
    for result in computed("atan2", [y, x]):
        expected = np.arctan2(y.real, x.real)
        expected = np.where((y == 0) & (x.real < 0), np.pi, expected)
        np.testing.assert_allclose(np.abs(result.real), np.abs(expected), rtol=1e-6)
        np.testing.assert_array_equal(result.imag, 0)
