"""Plans of Fourier transforms: factors of a length, passes, tables of roots of unity.

A block transform is vectorised over lines: first large prime factors, each by the cheapest
algorithm, then unrolled radices. The cost of a plan is in vector instructions per block, for any
type.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_server.codegen.routines.fourier.fourier_passes import (
    CALL_COST,
    MOVE_COST,
    PASS_COST,
    RADICES,
    generic_cost,
)

MAX_CONVOLUTION = 2048
"""Largest prime factor with a convolution inside a block: its scratch memory is on the stack."""


def roots(n: int, exponents: Any) -> Any:
    """Return exp(-2 pi i e / n) for an array of integers e, to the precision of complex128.

    Angles are reduced to an eighth of the circle in integers.
    """
    eighths = 8 * (np.asarray(exponents, np.int64) % n)
    octant = eighths // n
    is_odd = octant % 2 == 1
    rest = np.where(is_odd, (octant + 1) * n - eighths, eighths - octant * n)
    angle = rest * (2 * np.pi / (8 * n))
    cosine, sine = np.cos(angle), np.where(is_odd, -1, 1) * np.sin(angle)
    quarter = (octant + 1) // 2 % 4
    real = np.choose(quarter, [cosine, -sine, -cosine, sine])
    imaginary = np.choose(quarter, [sine, cosine, -sine, -cosine])
    return real - 1j * imaginary


def prime_factors(n: int) -> list[int]:
    """Return the prime factors of a number, smallest first."""
    found, p = [], 2
    while p * p <= n:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1 + (p > 2)
    return [*found, n] if n > 1 else found


@functools.cache
def radices(n: int) -> tuple[float, tuple[int, ...]]:
    """Return (cost per element, radices) of the cheapest passes of a length of small factors."""
    if n == 1:
        return 0.0, ()
    best: tuple[float, tuple[int, ...]] = (math.inf, ())
    for r in RADICES:
        if n % r == 0:
            cost, others = radices(n // r)
            best = min(best, (cost + PASS_COST[r] + CALL_COST / 64, (*others, r)))
    return best


@functools.cache
def padded_length(n: int) -> int:
    """Return the length of the cheapest convolution of at least 2 n - 1 elements."""
    least = 2 * n - 1
    lengths = []
    for odd in (1, 3, 5, 7, 9, 15, 21, 25, 27, 35, 45):
        m = odd << max(0, math.ceil(math.log2(least / odd)))
        lengths.append((m * radices(m)[0], m))
    return min(lengths)[1]


@functools.cache
def prime_plan(p: int) -> tuple[float, str]:
    """Return the cost per element of a prime factor, and its algorithm.

    Algorithms are "generic", "rader" (a cyclic convolution of p - 1 elements, if that has small
    factors) and "bluestein" (one of at least 2 p - 1 elements).
    """
    size = padded_length(p)
    algorithms = [
        (generic_cost(p), "generic"),
        (2 * radices(p - 1)[0] + 24, "rader"),
        ((2 * radices(size)[0] + 16) * size / p, "bluestein"),
    ]
    return min(algorithms)


@functools.cache
def block_cost(n: int, max_elements: int) -> float:
    """Return the cost of a block transform of n elements with its load and store.

    It is infinite for more than `max_elements`.
    """
    primes = prime_factors(n)
    if n > max_elements or max(primes, default=1) > MAX_CONVOLUTION:
        return math.inf
    small = math.prod(p for p in primes if p <= RADICES[0])
    large = sum(prime_plan(p)[0] for p in primes if p > RADICES[0])
    return n * (2 * MOVE_COST + radices(small)[0] + large) + 100


def chirp_of(n: int) -> Any:
    """Return exp(-pi i j * j / n) for j < n."""
    return roots(2 * n, np.arange(n) ** 2)


def spectrum_of(n: int, size: int) -> Any:
    """Return the transform, of length `size`, of the conjugate chirp on both sides of 0."""
    kernel = np.zeros(size, np.complex128)
    kernel[:n] = np.conj(chirp_of(n))
    kernel[size - n + 1 :] = kernel[1:n][::-1]
    return np.fft.fft(kernel) / size


def generator_of(p: int) -> int:
    """Return the smallest primitive root of a prime: its powers are all residues but 0."""
    factors = set(prime_factors(p - 1))
    return next(g for g in range(1, p) if all(pow(g, (p - 1) // f, p) != 1 for f in factors))


def divisors(n: int) -> Sequence[int]:
    """Return the divisors of a number in order."""
    found = {1}
    for p in prime_factors(n):
        found |= {p * d for d in found}
    return sorted(found)
