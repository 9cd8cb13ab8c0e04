"""Text of block transforms, and the constants that it reads."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_server.codegen.lower.fft_plan import (
    chirp_of,
    generator_of,
    padded_length,
    prime_factors,
    prime_way,
    radices,
    roots,
    spectrum_of,
)
from xla_server.codegen.routines.fourier_passes import RADICES, generic_name, pass_name
from xla_server.codegen.routines.fourier_text import WIDTH, pair_bytes
from xla_server.target.machine import Machine


@dataclasses.dataclass(slots=True)
class Tables:
    """The constants of a kernel: real numbers of one type one after the other."""

    kind: str
    parts: list[Any] = dataclasses.field(default_factory=list)
    byte_size: int = 0

    def add(self, numbers: Any) -> str:
        """Append complex numbers, or real ones; return the text of their address."""
        array = np.ascontiguousarray(numbers).ravel()
        if np.iscomplexobj(array):
            array = array.astype(np.complex128).view(np.float64)
        return self._append(array.astype(np.float32 if self.kind == "f32" else np.float64))

    def _append(self, part: Any) -> str:
        offset = self.byte_size
        # Vectors are read where lines of the cache begin.
        part = np.concatenate([part, np.zeros(-part.size % (64 // part.itemsize), part.dtype)])
        self.parts.append(part)
        self.byte_size += part.nbytes
        return f"tables + {offset}"

    def add_words(self, numbers: Any) -> str:
        """Append int64; return the text of their address."""
        real = np.float32 if self.kind == "f32" else np.float64
        return self._append(np.ascontiguousarray(numbers, np.int64).view(real))

    def array(self) -> Any:
        """Return all of them."""
        return np.concatenate(self.parts) if self.parts else np.zeros(1, np.float32)


class BlockText:
    """Lines of kernels that transform a block at the address `a`, with `b` as scratch memory.

    `result` is the name of the block that has the result. `prologue` are lines that reserve the
    scratch memory of convolutions and generic passes. All names end in `suffix`.
    """

    def __init__(self, machine: Machine, n: int, tables: Tables, suffix: str = "") -> None:
        self._suffix = suffix
        self._kind, self._tables = tables.kind, tables
        self._pair = pair_bytes(machine)
        self.prologue: list[str] = []
        self.lines: list[str] = []
        primes = prime_factors(n)
        s, self.result = 1, f"a{suffix}"
        for p in reversed(primes):
            if p > RADICES[0]:
                _, way = prime_way(p)
                {"generic": self._generic, "rader": self._rader, "bluestein": self._bluestein}[way](
                    p, s, n // s // p
                )
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

    def _bluestein(self, r: int, s: int, m: int) -> None:
        """Elements times a chirp, convolved with its conjugate, times the chirp."""
        size, pair, kind = padded_length(r), self._pair, self._kind
        chirp = chirp_of(r)
        first, spectrum = self._tables.add(chirp), self._tables.add(spectrum_of(r, size))
        last = self._tables.add(_turns(r * m, m, r) * chirp)
        padded, passes, middle, back, final = self._room(size)
        self._each(
            r,
            s,
            m,
            [
                f"fourier_chirp_{kind}(here, {s * m * pair}, {padded}, {pair}, {r}, {first}, "
                f"{size})",
                *passes,
                f"fourier_chirp_to_{kind}({middle}, {pair}, {middle}, {pair}, {size}, {spectrum}, "
                f"{size})",
                *back,
                f"fourier_chirp_from_{kind}({final}, {pair}, there, {s * pair}, {r}, "
                f"{last} + p * {r * 2 * WIDTH[kind]}, {r})",
            ],
        )

    def _rader(self, r: int, s: int, m: int) -> None:
        """Elements but the first in the order of a generator's powers: a cyclic convolution."""
        size, pair, kind = r - 1, self._pair, self._kind
        g = generator_of(r)
        powers = np.array([pow(g, k, r) for k in range(size)])
        inverses = np.array([pow(g, -q, r) for q in range(size)])
        spectrum = self._tables.add(np.fft.fft(roots(r, inverses)) / size)
        order = self._tables.add_words(powers * (s * m * pair))
        back_order = self._tables.add_words(inverses * (s * pair))
        last = self._tables.add(roots(r * m, np.arange(m)[:, None] * inverses))
        ordered, passes, middle, back, final = self._room(size)
        self._each(
            r,
            s,
            m,
            [
                f"fourier_take_{kind}(here, {ordered}, {size}, {order})",
                *passes,
                # Element 0 is the sum of all; the first is a part of every other.
                f"fourier_sum_{kind}(here, {middle}, there)",
                f"fourier_chirp_to_{kind}({middle}, {pair}, {middle}, {pair}, {size}, {spectrum}, "
                f"{size})",
                f"fourier_sum_swapped_{kind}(here, {middle}, {middle})",
                *back,
                f"fourier_give_{kind}({final}, there, {size}, {back_order}, "
                f"{last} + p * {size * 2 * WIDTH[kind]})",
            ],
        )

    def _room(self, size: int) -> tuple[str, list[str], str, list[str], str]:
        """(block, passes over it, block of their result, passes over that, block of the last)"""
        padded, other = f"c{self._suffix}", f"d{self._suffix}"
        self.prologue += [f"{name} = room_for({size * self._pair})" for name in (padded, other)]
        passes, middle = self._passes(size, 1, padded, other)
        back, final = self._passes(size, 1, middle, self._other(middle))
        return padded, passes, middle, back, final

    def _each(self, r: int, s: int, m: int, body: Sequence[str]) -> None:
        """Do something for each transform of a factor, from the address `here` to `there`."""
        source, target, pair = self.result, self._other(self.result), self._pair
        self.lines += [
            f"for p in range({m}):",
            f"    for q in range({s}):",
            f"        here = {source} + (q + p * {s}) * {pair}",
            f"        there = {target} + (q + p * {s * r}) * {pair}",
            *(f"        {line}" for line in body),
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


def scratch_bytes(machine: Machine, n: int) -> int:
    """Return the bytes of one block of n elements; short rows are loaded as squares."""
    return max(n, 16) * pair_bytes(machine)
