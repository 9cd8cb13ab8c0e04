"""Powers and angles of complex numbers, whose intermediate sums have twice the digits."""

import cmath

import numpy as np

from tests.unit.codegen.compiled import both
from tests.unit.codegen.instructions.calls import called
from xla_client import ops
from xla_server.ops.numerics.complex_numbers import from_parts

_RANDOM = np.random.default_rng(7)
SIZES = np.exp(_RANDOM.uniform(-3, 3, 500))
X = SIZES * np.exp(1j * _RANDOM.uniform(-np.pi, np.pi, 500))
Y = X[::-1] * np.exp(1j * _RANDOM.uniform(-1, 1, 500))


def test_powers() -> None:
    found = called("pow_c128", np.complex128, X, Y)
    # numpy multiplies a rounded logarithm by the exponent.
    np.testing.assert_allclose(found, X**Y, rtol=1e-12)


def test_powers_of_whole_exponents_are_products() -> None:
    found = called("pow_c128", np.complex128, X, np.full(500, 3 + 0j))
    np.testing.assert_allclose(found, X * X * X, rtol=1e-14)


def test_powers_beyond_all_numbers() -> None:
    # The product of exponent and logarithm, or its rounding error, has no bound.
    base = np.array([2, 2 + 0.1j, 0.5, 1e300, 1e300, 3 + 4j, 0, 0, np.inf, np.inf, 1e300 + 1e-5j])
    exponent = np.array([-1e20, -1e20, 1e308, -1e307, 1e307, 500, 2, -2, 2, -2, 2 + 0j])
    found = called("pow_c128", np.complex128, base, exponent)
    sizes = [0, 0, 0, 0, np.inf, np.inf, 0, np.nan, np.inf, 0, np.inf]
    np.testing.assert_array_equal(found.real, sizes)
    np.testing.assert_allclose(found.imag[-1], 2e295, rtol=1e-12)


def test_powers_of_large_angles() -> None:
    # 1e12 log 2 modulo 2 pi is beyond f64, but not beyond a sum of two.
    base, exponent = np.full(3, 2 + 0j), np.array([1e12j, 1e15j + 3, 1e18j])
    found = called("pow_c128", np.complex128, base, exponent)
    turned = np.array([2.047041027435149, -1.2773827053964355, -1.8960880389794712])
    np.testing.assert_allclose(found, [1, 8, 1] * np.exp(1j * turned), rtol=1e-9)


def test_arc_tangents_are_angles_of_quotients() -> None:
    right = X * np.sign(X.real)
    found = called("atan2_c128", np.complex128, right * 0.25, right)
    np.testing.assert_allclose(found, np.full(500, cmath.atan(0.25)), rtol=1e-14, atol=1e-15)


def test_arc_tangents_near_their_poles() -> None:
    # There y / x is near i, and rounding it would lose all digits of the result's size.
    small = 2.0 ** -np.arange(10, 40)
    ones = np.ones(len(small), np.complex128)
    found = called("atan2_c128", np.complex128, ones * 1j * (1 - small), ones)
    np.testing.assert_allclose(found.imag, np.log((2 - small) / small) / 2, rtol=1e-14)


def test_quotients_of_ends_are_those_of_the_definition() -> None:
    numbers = np.finfo(np.float32)
    sizes = [1, 3, float(numbers.max), float(numbers.tiny), 0, np.inf]
    parts = [*sizes, *(-size for size in sizes), np.nan]
    given = np.meshgrid(*[np.array(parts, np.float32)] * 4)
    x, y = (from_parts(*pair).ravel() for pair in (given[:2], given[2:]))
    with np.errstate(all="ignore"):
        ((found, wanted),) = both(ops.div, x, y)
    for ours, theirs in ((found.real, wanted.real), (found.imag, wanted.imag)):
        np.testing.assert_array_equal(ours, theirs)
    zeros = found.real == 0
    np.testing.assert_array_equal(np.signbit(found.real[zeros]), np.signbit(wanted.real[zeros]))
