"""Plans of Fourier transforms: factors, roots of unity, lengths of convolutions."""

import math

import numpy as np
import pytest

from xla_server.codegen.lower.fourier.fft_context import Lines, Vectors
from xla_server.codegen.lower.fourier.fft_plan import (
    block_cost,
    chirp_of,
    divisors,
    generator_of,
    padded_length,
    prime_factors,
    prime_plan,
    radices,
    roots,
    spectrum_of,
)
from xla_server.codegen.routines.fourier.fourier_passes import RADICES
from xla_server.codegen.routines.fourier.fourier_text import unit_root
from xla_server.target.kernel_tuning import FourierTransforms

TUNED = FourierTransforms()


def test_factors() -> None:
    for n in range(1, 2000):
        assert math.prod(prime_factors(n)) == n
        assert divisors(n) == [d for d in range(1, n + 1) if n % d == 0]
    assert prime_factors(4 * 283) == [2, 2, 283]


def test_the_radices_of_a_length_are_its_factors() -> None:
    for n in (1, 2, 16, 60, 1000, 1024, 13 * 11 * 7, 2187):
        _, found = radices(n)
        assert math.prod(found) == n
        assert set(found) <= set(RADICES)
    assert radices(17) == (math.inf, ())


def test_roots_are_exact_to_the_last_bits() -> None:
    for n in (1, 2, 3, 8, 360, 10007):
        exponents = np.arange(-3, 2 * n)
        found = roots(n, exponents)
        expected = [complex(*unit_root(int(e), n)) for e in exponents]
        np.testing.assert_allclose(found, expected, rtol=0, atol=3e-16)
    long = np.arange(1000, dtype=np.longdouble) * 12345 % 10007
    angle = 2 * long / 10007 * np.arctan2(np.longdouble(0), np.longdouble(-1))
    found = roots(10007, np.arange(1000) * 12345)
    assert np.abs(found - (np.cos(angle) - 1j * np.sin(angle))).max() < 2.5e-16


@pytest.mark.parametrize("n", [2, 67, 641, 1031, 10007])
def test_convolutions_are_long_enough_and_of_small_factors(n: int) -> None:
    size = padded_length(n)
    assert 2 * n - 1 <= size < 4 * n
    assert max(prime_factors(size)) <= 7
    x = np.random.default_rng(n).standard_normal(n) + 0j
    convolved = np.fft.ifft(np.fft.fft(x * chirp_of(n), size) * spectrum_of(n, size)) * size
    np.testing.assert_allclose(convolved[:n] * chirp_of(n), np.fft.fft(x), atol=1e-10)


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_every_length_has_a_way(lanes: int) -> None:
    for n in (1, 1021, 1031, 61**3, 2**20, 2**21, 3 * 1031, 1031 * 1033, 999983):
        for outer, inner in ((1, 1), (1, 3), (50, 50)):
            assert Lines(outer, n, inner).cost(Vectors(lanes, TUNED)) < math.inf


def test_blocks_have_at_most_so_many_elements() -> None:
    assert block_cost(64, 64) < math.inf
    assert block_cost(65, 64) == math.inf


def test_many_lines_are_done_in_one_kernel_and_few_are_cut() -> None:
    assert Lines(1000, 1000, 1).is_one_kernel(Vectors(16, TUNED))
    assert not Lines(1, 1000, 1).is_one_kernel(Vectors(16, TUNED))


def test_a_prime_factor_goes_the_cheapest_way() -> None:
    ways = {p: prime_plan(p)[1] for p in (17, 29, 61, 107, 283, 641, 1009)}
    assert ways == {
        17: "generic",
        29: "generic",
        61: "rader",
        107: "bluestein",
        283: "bluestein",
        641: "rader",
        1009: "rader",
    }


def test_powers_of_a_generator_are_all_residues() -> None:
    for p in (3, 5, 7, 61, 641, 1009):
        assert {pow(generator_of(p), k, p) for k in range(p - 1)} == set(range(1, p))
