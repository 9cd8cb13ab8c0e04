"""Calls of block transforms, and the constants that they read."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Loop
from xla_server.codegen.lower.fourier import fft_plan as plan
from xla_server.codegen.routines.fourier.fourier_blocks import block_routine
from xla_server.codegen.routines.fourier.fourier_passes import RADICES, generic_pass, pass_routine
from xla_server.codegen.routines.fourier.fourier_text import WIDTH, pair_bytes
from xla_server.target.machine import Machine

TARGET, SOURCE = ir.Buffer(0, ir.Usage.SCRATCH), ir.Buffer(1, ir.Usage.READ)
"""The result and the operand, which share memory if the result overwrites the operand. Kernels take
their addresses: the loads must not be marked as from memory that no store changes."""

TABLES = ir.Buffer(2, ir.Usage.READ)
"""The constants."""


@dataclasses.dataclass(slots=True)
class Tables:
    """The constants of a kernel: a growing array of real numbers of one type."""

    kind: str
    parts: list[Any] = dataclasses.field(default_factory=list)
    byte_size: int = 0

    def add(self, numbers: Any) -> ir.Expression:
        """Append complex numbers, or real ones; return their address."""
        array = np.ascontiguousarray(numbers).ravel()
        if np.iscomplexobj(array):
            array = array.astype(np.complex128).view(np.float64)
        return self._append(array.astype(np.float32 if self.kind == "f32" else np.float64))

    def _append(self, part: Any) -> ir.Expression:
        offset = self.byte_size
        # Tables are aligned to cache lines, for aligned vector loads.
        part = np.concatenate([part, np.zeros(-part.size % (64 // part.itemsize), part.dtype)])
        self.parts.append(part)
        self.byte_size += part.nbytes
        return ir.Address(TABLES) + offset

    def add_words(self, numbers: Any) -> ir.Expression:
        """Append int64; return their address."""
        real = np.float32 if self.kind == "f32" else np.float64
        return self._append(np.ascontiguousarray(numbers, np.int64).view(real))

    def array(self) -> Any:
        """Return all constants as one array."""
        return np.concatenate(self.parts) if self.parts else np.zeros(1, np.float32)


class BlockTransform:
    """Calls that transform lines of n elements in the block `first`.

    `body` has the calls, `result` is the block that has the result, and `stack` are all blocks.
    Names of memory and of loops end in `suffix`.
    """

    def __init__(self, machine: Machine, n: int, tables: Tables, first: ir.StackArray) -> None:
        self._suffix = first.name[1:]
        self._kind, self._tables = tables.kind, tables
        self._pair = pair_bytes(machine)
        self.body = Body()
        self.stack = [first]
        self._other: dict[ir.StackArray, ir.StackArray] = {}
        primes = plan.prime_factors(n)
        s, self.result = 1, first
        if n > 1:
            self._pair_of(first, self._array("b", first.byte_size))
        for p in reversed(primes):
            if p > RADICES[0]:
                _, way = plan.prime_plan(p)
                {"generic": self._generic, "rader": self._rader, "bluestein": self._bluestein}[way](
                    p, s, n // s // p
                )
                s *= p
        if n // s > 1:
            self.result = self._pass(self.body, n // s, s, self.result)

    def _array(self, name: str, byte_size: int) -> ir.StackArray:
        self.stack.append(ir.StackArray(f"{name}{self._suffix}", byte_size))
        return self.stack[-1]

    def _pair_of(self, one: ir.StackArray, other: ir.StackArray) -> None:
        """Let each of two blocks be the scratch memory of the other."""
        self._other |= {one: other, other: one}

    def _pass(self, body: Body, n: int, s: int, source: ir.StackArray) -> ir.StackArray:
        """Append unrolled passes; return the block, of two, that has their result."""
        rest = n
        _, factors = plan.radices(n)
        for r in factors:
            m, target = rest // r, self._other[source]
            routine = pass_routine(self._kind, r, is_last=m == 1)
            table = ir.Index(0) if m == 1 else self._tables.add(_twiddles(rest, r, m))
            body.call(routine, _pass_operands(source, target, s, m, table))
            source, s, rest = target, s * r, m
        return source

    def _generic(self, r: int, s: int, m: int) -> None:
        source, target = self.result, self._other[self.result]
        workspace = self._array(f"workspace{s}", r * self._pair)
        table = self._tables.add(_twiddles(r * m, r, m))
        powers = self._tables.add(np.conj(plan.roots(r, np.arange(r))))
        operands = _pass_operands(source, target, s, m, table)
        more = {"r": r, "roots": powers, "workspace": ir.Address(workspace)}
        self.body.call(generic_pass(self._kind), {**operands, **more})
        self.result = target

    def _bluestein(self, r: int, s: int, m: int) -> None:
        """Append Bluestein's: multiply by a chirp, convolve with its conjugate, multiply again."""
        size, pair, kind = plan.padded_length(r), self._pair, self._kind
        chirp = plan.chirp_of(r)
        first, spectrum = self._tables.add(chirp), self._tables.add(plan.spectrum_of(r, size))
        last = self._tables.add(_root_powers(r * m, m, r) * chirp)
        padded = self._convolution_block(size, s)
        with self._each(r, s, m) as (body, p, here, there):
            start = chirp_operands((here, s * m * pair), (ir.Address(padded), pair), r, first, size)
            body.call(block_routine("chirp", kind), start)
            middle = self._pass(body, size, 1, padded)
            both = (ir.Address(middle), pair), (ir.Address(middle), pair)
            body.call(block_routine("chirp_to", kind), chirp_operands(*both, size, spectrum))
            final = self._pass(body, size, 1, middle)
            table = last + p * (r * 2 * WIDTH[kind])
            end = chirp_operands((ir.Address(final), pair), (there, s * pair), r, table)
            body.call(block_routine("chirp_from", kind), end)

    def _rader(self, r: int, s: int, m: int) -> None:
        """Append Rader's algorithm: a cyclic convolution in the order of a generator's powers."""
        size, pair, kind = r - 1, self._pair, self._kind
        g = plan.generator_of(r)
        powers = np.array([pow(g, k, r) for k in range(size)])
        inverses = np.array([pow(g, -q, r) for q in range(size)])
        spectrum = self._tables.add(np.fft.fft(plan.roots(r, inverses)) / size)
        order = self._tables.add_words(powers * (s * m * pair))
        back_order = self._tables.add_words(inverses * (s * pair))
        last = self._tables.add(plan.roots(r * m, np.arange(m)[:, None] * inverses))
        ordered = self._convolution_block(size, s)
        with self._each(r, s, m) as (body, p, here, there):
            operands = {
                "source": here,
                "target": ir.Address(ordered),
                "count": size,
                "offsets": order,
            }
            body.call(block_routine("gather", kind), operands)
            result = self._pass(body, size, 1, ordered)
            middle = ir.Address(result)
            both = {"one": here, "other": middle}
            # Element 0 is the sum of all; the first element is added to every other one.
            body.call(block_routine("sum", kind), {**both, "target": there})
            chirp = chirp_operands((middle, pair), (middle, pair), size, spectrum)
            body.call(block_routine("chirp_to", kind), chirp)
            body.call(block_routine("sum_swapped", kind), {**both, "target": middle})
            final = ir.Address(self._pass(body, size, 1, result))
            table = last + p * (size * 2 * WIDTH[kind])
            operands = {"source": final, "target": there, "count": size, "offsets": back_order}
            body.call(block_routine("scatter", kind), {**operands, "table": table})

    def _convolution_block(self, size: int, s: int) -> ir.StackArray:
        """Return one of two blocks for the convolution of a factor."""
        padded, other = (self._array(f"{name}{s}", size * self._pair) for name in "cd")
        self._pair_of(padded, other)
        return padded

    @contextlib.contextmanager
    def _each(
        self, r: int, s: int, m: int
    ) -> Iterator[tuple[Body, ir.Expression, ir.Expression, ir.Expression]]:
        """Build (body, p, here, there) for the transforms of a factor: number p of each group."""
        source, pair = self.result, self._pair
        self.result = self._other[source]
        p, q, here, there = (f"{name}{s}{self._suffix}" for name in ("p", "q", "here", "there"))
        with Loop(self.body, p, m) as around, Loop(around, q, s) as body:
            number, line = around.axis, body.axis
            begin = body.let(here, ir.Address(source) + (line + number * s) * pair)
            end = body.let(there, ir.Address(self.result) + (line + number * (s * r)) * pair)
            yield body, number, begin, end


def chirp_operands(
    source: tuple[ir.Expression, int],
    target: tuple[ir.Expression, int],
    count: int | ir.Expression,
    table: ir.Expression,
    padded: int | None = None,
) -> dict[str, int | ir.Expression]:
    """Return operands of a product with a table; memory is (address, bytes between elements)."""
    return {
        **{"source": source[0], "source_step": source[1]},
        **{"target": target[0], "target_step": target[1]},
        **{"count": count, "table": table, "padded": count if padded is None else padded},
    }


def _pass_operands(
    source: ir.StackArray, target: ir.StackArray, s: int, m: int, twiddles: ir.Expression
) -> dict[str, int | ir.Expression]:
    addresses = {"source": ir.Address(source), "target": ir.Address(target)}
    return {**addresses, "s": s, "m": m, "twiddles": twiddles}


def _root_powers(n: int, m: int, r: int) -> Any:
    """exp(-2 pi i p k / n) for p < m and k < r."""
    return plan.roots(n, np.arange(m)[:, None] * np.arange(r))


def _twiddles(n: int, r: int, m: int) -> Any:
    return _root_powers(n, m, r)[:, 1:]


def scratch_bytes(machine: Machine, n: int) -> int:
    """Return the bytes of one block of n elements; short rows are loaded as squares."""
    return max(n, 16) * pair_bytes(machine)
