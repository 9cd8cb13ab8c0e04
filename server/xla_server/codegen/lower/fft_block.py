"""Calls of block transforms, and the constants that they read."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from xla_server.codegen.kernel_ir.builder import Body, Loop
from xla_server.codegen.kernel_ir.expressions import (
    Address,
    Buffer,
    Expression,
    Index,
    Role,
    StackArray,
)
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

TARGET, SOURCE = Buffer(0, Role.SCRATCH), Buffer(1, Role.SCRATCH)
"""The result and the operand, which share memory if the result overwrites the operand."""

TABLES = Buffer(2, Role.READ)
"""The constants."""


@dataclasses.dataclass(slots=True)
class Tables:
    """The constants of a kernel: real numbers of one type one after the other."""

    kind: str
    parts: list[Any] = dataclasses.field(default_factory=list)
    byte_size: int = 0

    def add(self, numbers: Any) -> Expression:
        """Append complex numbers, or real ones; return their address."""
        array = np.ascontiguousarray(numbers).ravel()
        if np.iscomplexobj(array):
            array = array.astype(np.complex128).view(np.float64)
        return self._append(array.astype(np.float32 if self.kind == "f32" else np.float64))

    def _append(self, part: Any) -> Expression:
        offset = self.byte_size
        # Vectors are read where lines of the cache begin.
        part = np.concatenate([part, np.zeros(-part.size % (64 // part.itemsize), part.dtype)])
        self.parts.append(part)
        self.byte_size += part.nbytes
        return Address(TABLES) + offset

    def add_words(self, numbers: Any) -> Expression:
        """Append int64; return their address."""
        real = np.float32 if self.kind == "f32" else np.float64
        return self._append(np.ascontiguousarray(numbers, np.int64).view(real))

    def array(self) -> Any:
        """Return all of them."""
        return np.concatenate(self.parts) if self.parts else np.zeros(1, np.float32)


class BlockTransform:
    """Calls that transform lines of n elements in the block `first`.

    `body` has the calls, `result` is the block that has the result, and `stack` are all blocks.
    Names of memory and of loops end in `suffix`.
    """

    def __init__(self, machine: Machine, n: int, tables: Tables, first: StackArray) -> None:
        self._suffix = first.name[1:]
        self._kind, self._tables = tables.kind, tables
        self._pair = pair_bytes(machine)
        self.body = Body()
        self.stack = [first]
        self._other: dict[StackArray, StackArray] = {}
        primes = prime_factors(n)
        s, self.result = 1, first
        if n > 1:
            self._pair_of(first, self._array("b", first.byte_size))
        for p in reversed(primes):
            if p > RADICES[0]:
                _, way = prime_way(p)
                {"generic": self._generic, "rader": self._rader, "bluestein": self._bluestein}[way](
                    p, s, n // s // p
                )
                s *= p
        if n // s > 1:
            self.result = self._pass(self.body, n // s, s, self.result)

    def _array(self, name: str, byte_size: int) -> StackArray:
        self.stack.append(StackArray(f"{name}{self._suffix}", byte_size))
        return self.stack[-1]

    def _pair_of(self, one: StackArray, other: StackArray) -> None:
        """Let each of two blocks be the scratch memory of the other."""
        self._other |= {one: other, other: one}

    def _pass(self, body: Body, n: int, s: int, source: StackArray) -> StackArray:
        """Append unrolled passes; return which of two blocks has their result."""
        rest = n
        _, factors = radices(n)
        for r in factors:
            m, target = rest // r, self._other[source]
            name = pass_name(self._kind, r, is_last=m == 1)
            table = Index(0) if m == 1 else self._tables.add(_twiddles(rest, r, m))
            body.call(name, Address(source), Address(target), s, m, table)
            source, s, rest = target, s * r, m
        return source

    def _generic(self, r: int, s: int, m: int) -> None:
        source, target = self.result, self._other[self.result]
        room = self._array(f"room{s}", r * self._pair)
        table = self._tables.add(_twiddles(r * m, r, m))
        turns = self._tables.add(np.conj(roots(r, np.arange(r))))
        numbers = (s, m, table, r, turns, Address(room))
        self.body.call(generic_name(self._kind), Address(source), Address(target), *numbers)
        self.result = target

    def _bluestein(self, r: int, s: int, m: int) -> None:
        """Elements times a chirp, convolved with its conjugate, times the chirp."""
        size, pair, kind = padded_length(r), self._pair, self._kind
        chirp = chirp_of(r)
        first, spectrum = self._tables.add(chirp), self._tables.add(spectrum_of(r, size))
        last = self._tables.add(_turns(r * m, m, r) * chirp)
        padded = self._room(size, s)
        with self._each(r, s, m) as (body, p, here, there):
            start = (here, s * m * pair, Address(padded), pair, r, first, size)
            body.call(f"fourier_chirp_{kind}", *start)
            middle = self._pass(body, size, 1, padded)
            both = (Address(middle), pair, Address(middle), pair)
            body.call(f"fourier_chirp_to_{kind}", *both, size, spectrum, size)
            final = self._pass(body, size, 1, middle)
            table = last + p * (r * 2 * WIDTH[kind])
            end = (Address(final), pair, there, s * pair, r, table, r)
            body.call(f"fourier_chirp_from_{kind}", *end)

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
        ordered = self._room(size, s)
        with self._each(r, s, m) as (body, p, here, there):
            body.call(f"fourier_take_{kind}", here, Address(ordered), size, order)
            result = self._pass(body, size, 1, ordered)
            middle = Address(result)
            # Element 0 is the sum of all; the first is a part of every other.
            body.call(f"fourier_sum_{kind}", here, middle, there)
            both = (middle, pair, middle, pair)
            body.call(f"fourier_chirp_to_{kind}", *both, size, spectrum, size)
            body.call(f"fourier_sum_swapped_{kind}", here, middle, middle)
            final = Address(self._pass(body, size, 1, result))
            table = last + p * (size * 2 * WIDTH[kind])
            body.call(f"fourier_give_{kind}", final, there, size, back_order, table)

    def _room(self, size: int, s: int) -> StackArray:
        """Return one of two blocks for the convolution of a factor."""
        padded, other = (self._array(f"{name}{s}", size * self._pair) for name in "cd")
        self._pair_of(padded, other)
        return padded

    @contextlib.contextmanager
    def _each(
        self, r: int, s: int, m: int
    ) -> Iterator[tuple[Body, Expression, Expression, Expression]]:
        """Build (body, p, here, there) for the transforms of a factor: number p of each group."""
        source, pair = self.result, self._pair
        self.result = self._other[source]
        p, q, here, there = (f"{name}{s}{self._suffix}" for name in ("p", "q", "here", "there"))
        with Loop(self.body, p, m) as around, Loop(around, q, s) as body:
            number, line = around.axis, body.axis
            begin = body.let(here, Address(source) + (line + number * s) * pair)
            end = body.let(there, Address(self.result) + (line + number * (s * r)) * pair)
            yield body, number, begin, end


def _turns(n: int, m: int, r: int) -> Any:
    """exp(-2 pi i p k / n) for p < m and k < r."""
    return roots(n, np.arange(m)[:, None] * np.arange(r))


def _twiddles(n: int, r: int, m: int) -> Any:
    return _turns(n, m, r)[:, 1:]


def scratch_bytes(machine: Machine, n: int) -> int:
    """Return the bytes of one block of n elements; short rows are loaded as squares."""
    return max(n, 16) * pair_bytes(machine)
