"""Plans of Fourier transforms: factors of a length, passes, tables of roots of unity.

A block transform does up to MAX_BLOCK elements of several lines in vectors: first a prime factor of
more than MAX_GENERIC by Bluestein's convolution, then other primes by a generic pass, then unrolled
radices. The cost of a plan is in vector instructions for a block, whatever the type.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_server.codegen.routines.fourier_passes import RADICES, generic_name, pass_name
from xla_server.codegen.routines.fourier_text import WIDTH, pair_bytes

MAX_BLOCK = 4096
"""Elements of a block transform: two blocks are a mebibyte with vectors of 64 bytes, which fits a
core's second cache. Cutting lines of 2048 to 4096 elements took 1.2 to 2 times as long."""

MAX_CONVOLUTION = 2048
"""Prime factor up to which blocks have convolutions: their scratch memory is on the stack, too."""

MAX_GENERIC = 61
"""Prime factor up to which the generic pass costs less than Bluestein's convolution."""

_COST = {2: 5, 3: 7, 4: 7, 5: 9, 6: 9, 7: 12, 8: 10, 9: 12, 10: 12, 11: 20, 13: 25}
"""Instructions of a pass for an element, loads and stores among them."""

_CALL = 20
"""Instructions around a pass."""


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
    """Return (cost for an element, radices) of the cheapest passes of a length of small factors."""
    if n == 1:
        return 0.0, ()
    best: tuple[float, tuple[int, ...]] = (math.inf, ())
    for r in RADICES:
        if n % r == 0:
            cost, others = radices(n // r)
            best = min(best, (cost + _COST[r] + _CALL / 64, (*others, r)))
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


def fits_block(n: int) -> bool:
    """Return whether block transforms have so many elements."""
    return n <= MAX_BLOCK


@functools.cache
def block_cost(n: int) -> float:
    """Return the cost of a block transform of n elements with its load and store."""
    primes = prime_factors(n)
    if not fits_block(n) or max(primes, default=1) > MAX_CONVOLUTION:
        return math.inf
    small = math.prod(p for p in primes if p <= RADICES[0])
    cost = n * (12 + radices(small)[0]) + 100
    for p in primes:
        if RADICES[0] < p <= MAX_GENERIC:
            cost += n * (8 + 1.5 * p)
        elif p > MAX_GENERIC:
            m = padded_length(p)
            cost += n / p * m * (2 * radices(m)[0] + 12)
    return cost


@dataclasses.dataclass(slots=True)
class Tables:
    """The constants of a kernel: real numbers of one type one after the other."""

    kind: str
    parts: list[Any] = dataclasses.field(default_factory=list)
    byte_size: int = 0

    def add(self, numbers: Any) -> str:
        """Append complex numbers, or real ones; return the text of their address."""
        offset = self.byte_size
        array = np.ascontiguousarray(numbers).ravel()
        if np.iscomplexobj(array):
            array = array.astype(np.complex128).view(np.float64)
        part = array.astype(np.float32 if self.kind == "f32" else np.float64)
        # Vectors are read where lines of the cache begin.
        part = np.concatenate([part, np.zeros(-part.size % (64 // part.itemsize), part.dtype)])
        self.parts.append(part)
        self.byte_size += part.nbytes
        return f"tables + {offset}"

    def array(self) -> Any:
        """Return all of them."""
        return np.concatenate(self.parts) if self.parts else np.zeros(1, np.float32)


class BlockText:
    """Lines of kernels that transform a block at the address `a`, with `b` as scratch memory.

    `result` is the name of the block that has the result. `prologue` are lines that reserve the
    scratch memory of convolutions and generic passes. All names end in `suffix`.
    """

    def __init__(self, n: int, tables: Tables, suffix: str = "") -> None:
        self._suffix = suffix
        self._kind, self._tables = tables.kind, tables
        self._pair = pair_bytes(self._kind)
        self.prologue: list[str] = []
        self.lines: list[str] = []
        primes = prime_factors(n)
        s, self.result = 1, f"a{suffix}"
        for p in reversed(primes):
            if p > RADICES[0]:
                add = self._generic if p <= MAX_GENERIC else self._convolution
                add(p, s, n // s // p)
                s *= p
        if n // s > 1:
            source, target = self.result, self._other(self.result)
            lines, self.result = self._passes(n // s, s, source, target)
            self.lines += lines

    def _passes(self, n: int, s: int, source: str, target: str) -> tuple[list[str], str]:
        """The lines of unrolled passes, and which of the two blocks has their result."""
        lines = []
        rest = n
        _, factors = radices(n)
        for r in factors:
            m = rest // r
            name = pass_name(self._kind, r, is_last=m == 1)
            table = "0" if m == 1 else self._tables.add(_twiddles(rest, r, m))
            lines.append(f"{name}({source}, {target}, {s}, {m}, {table})")
            source, target, s, rest = target, source, s * r, m
        return lines, source

    def _generic(self, r: int, s: int, m: int) -> None:
        source, target = self.result, self._other(self.result)
        name = f"room{r}{self._suffix}"
        self.prologue.append(f"{name} = room_for({r * self._pair})")
        table = self._tables.add(_twiddles(r * m, r, m))
        turns = np.conj(roots(r, np.arange(r)))
        numbers = f"{s}, {m}, {table}, {r}, {self._tables.add(turns)}, {name}"
        self.lines.append(f"{generic_name(self._kind)}({source}, {target}, {numbers})")
        self.result = target

    def _convolution(self, r: int, s: int, m: int) -> None:
        """Bluestein's: the first factor, as a block has no room for two such."""
        assert s == 1, r
        size, pair, kind = padded_length(r), self._pair, self._kind
        source, target = self.result, self._other(self.result)
        padded, other = f"c{self._suffix}", f"d{self._suffix}"
        self.prologue += [f"{name} = room_for({size * pair})" for name in (padded, other)]
        chirp = chirp_of(r)
        first, spectrum = self._tables.add(chirp), self._tables.add(spectrum_of(r, size))
        last = self._tables.add(_turns(r * m, m, r) * chirp)
        passes, result = self._passes(size, 1, padded, other)
        back, final = self._passes(size, 1, result, self._other(result))
        width = 2 * WIDTH[kind]
        self.lines += [
            f"for p in range({m}):",
            f"    fourier_chirp_{kind}({source} + p * {pair}, {m * pair}, {padded}, {pair}, {r}, "
            f"{first}, {size})",
            *(f"    {line}" for line in passes),
            f"    fourier_chirp_to_{kind}({result}, {pair}, {result}, {pair}, {size}, {spectrum}, "
            f"{size})",
            *(f"    {line}" for line in back),
            f"    fourier_chirp_from_{kind}({final}, {pair}, {target} + p * {r * pair}, {pair}, "
            f"{r}, {last} + p * {r * width}, {r})",
        ]
        self.result = target

    def _other(self, name: str) -> str:
        """The scratch block beside a block."""
        return {"a": "b", "b": "a", "c": "d", "d": "c"}[name[0]] + self._suffix


def _turns(n: int, m: int, r: int) -> Any:
    """exp(-2 pi i p k / n) for p < m and k < r."""
    return roots(n, np.arange(m)[:, None] * np.arange(r))


def _twiddles(n: int, r: int, m: int) -> Any:
    return _turns(n, m, r)[:, 1:]


def chirp_of(n: int) -> Any:
    """Return exp(-pi i j * j / n) for j < n."""
    return roots(2 * n, np.arange(n) ** 2)


def spectrum_of(n: int, size: int) -> Any:
    """Return the transform of the conjugate chirp on both sides of 0, over `size`."""
    kernel = np.zeros(size, np.complex128)
    kernel[:n] = np.conj(chirp_of(n))
    kernel[size - n + 1 :] = kernel[1:n][::-1]
    return np.fft.fft(kernel) / size


def scratch_bytes(n: int, kind: str) -> int:
    """Return the bytes of one block of n elements; short rows are loaded as squares."""
    return max(n, 16) * pair_bytes(kind)


def divisors(n: int) -> Sequence[int]:
    """Return the divisors of a number in order."""
    found = {1}
    for p in prime_factors(n):
        found |= {p * d for d in found}
    return sorted(found)
