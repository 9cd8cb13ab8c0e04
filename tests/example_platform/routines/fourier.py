"""The routines of Fourier transforms, by numpy: moves of lines, passes, and steps over blocks.

An element of a block is a vector of real parts and one of imaginary parts: a lane of each for a
line. Addresses of the two parts are given apart, and exchanged for an inverse transform.
"""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tests.example_platform.memory import Arrays
from tests.processors import HOST
from xla_server.codegen.routines.fourier.fourier_blocks import block_routine
from xla_server.codegen.routines.fourier.fourier_moves import move_name
from xla_server.codegen.routines.fourier.fourier_passes import RADICES, generic_pass, pass_routine
from xla_server.codegen.routines.fourier.fourier_text import pair_bytes

Numbers = Any
_PAIR = pair_bytes(HOST)
_KINDS = {"f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}


class _Memory:
    """Memory that holds real numbers of one type."""

    def __init__(self, arrays: Arrays, kind: str) -> None:
        self._arrays, self.dtype = arrays, _KINDS[kind]
        self.width = self.dtype.itemsize
        self.vector = _PAIR // 2
        self.lanes = self.vector // self.width

    def rows(self, address: int, count: int, step: int, size: int) -> Numbers:
        """Return `count` runs of `size` numbers, of which each begins a step behind another."""
        first = address + min(0, (count - 1) * step)
        found = self._arrays.at(first, abs(step) * (count - 1) + size * self.width)
        offset = (address - first) // self.width
        shape, strides = (count, size), (step, self.width)
        return as_strided(found.view(self.dtype)[offset:], shape, strides)

    def part(self, address: int, count: int, step: int = _PAIR) -> Numbers:
        """Return one part of elements."""
        return self.rows(address, count, step, self.lanes)

    def block(self, address: int, count: int, step: int = _PAIR) -> Numbers:
        """Return elements as complex numbers."""
        return self.part(address, count, step) + 1j * self.part(address + self.vector, count, step)

    def put(self, address: int, values: Numbers, step: int = _PAIR) -> None:
        """Store elements."""
        self.part(address, len(values), step)[:] = values.real
        self.part(address + self.vector, len(values), step)[:] = values.imag

    def table(self, address: int, count: int) -> Numbers:
        """Return complex numbers one after the other, each for all lanes."""
        pairs = self.rows(address, count, 2 * self.width, 2)
        return (pairs[:, 0] + 1j * pairs[:, 1])[:, None]

    def words(self, address: int, count: int) -> Any:
        """Return integers."""
        return self._arrays.at(address, 8 * count).view(np.int64).tolist()


def _swapped(values: Numbers) -> Numbers:
    return values.imag + 1j * values.real


def _pass(
    radix: int,
    m: _Memory,
    source: int,
    target: int,
    s: int,
    rows: int,
    twiddles: int,
    *generic: int,
) -> None:
    r = generic[0] if generic else radix
    x = m.block(source, r * rows * s).reshape(r, rows, s, m.lanes)
    roots = np.exp(-2j * np.pi / r * np.outer(np.arange(r), np.arange(r)))
    y = np.einsum("bpql,bk->pkql", x, roots)
    if twiddles:
        y[:, 1:] *= m.table(twiddles, rows * (r - 1)).reshape(rows, r - 1, 1, 1)
    m.put(target, y.reshape(-1, m.lanes))


def _chirp(
    swapped: str,
    m: _Memory,
    source: int,
    source_step: int,
    target: int,
    target_step: int,
    count: int,
    table: int,
    padded: int,
) -> None:
    values = m.block(source, count, source_step)
    product = (_swapped(values) if swapped == "operand" else values) * m.table(table, count)
    values = np.zeros((padded, m.lanes), complex)
    values[:count] = _swapped(product) if swapped == "result" else product
    m.put(target, values, target_step)


def _gather(m: _Memory, source: int, target: int, count: int, offsets: int) -> None:
    for number, offset in enumerate(m.words(offsets, count)):
        m.put(target + number * _PAIR, m.block(source + offset, 1))


def _scatter(m: _Memory, source: int, target: int, count: int, offsets: int, table: int) -> None:
    values = _swapped(m.block(source, count)) * m.table(table, count)
    for value, offset in zip(values, m.words(offsets, count), strict=True):
        m.put(target + offset, value[None])


def _sum(is_swapped: bool, m: _Memory, one: int, other: int, target: int) -> None:
    first = m.block(one, 1)
    m.put(target, (_swapped(first) if is_swapped else first) + m.block(other, 1))


def _mirror(m: _Memory, real: int, imaginary: int, count: int) -> None:
    reals, imaginaries = m.part(real, count), m.part(imaginary, count)
    half = count // 2
    imaginaries[0] = 0
    reals[count - half :] = reals[1 : half + 1][::-1].copy()
    imaginaries[count - half :] = -imaginaries[1 : half + 1][::-1].copy()


def _mixed(low: Numbers, high: Numbers, scale: Any, root: Numbers) -> tuple[Numbers, Numbers]:
    scaled, turned = scale * (low + high.conj()), root * (low - high.conj())
    return scaled + turned, (scaled - turned).conj()


def _halves(is_inverse: bool, m: _Memory, real: int, imaginary: int, half: int, table: int) -> None:
    reals, imaginaries = m.part(real, half + 1), m.part(imaginary, half + 1)
    one = reals[0].copy()
    other = (reals[half] if is_inverse else imaginaries[0]).copy()
    reals[0] = one + other
    if is_inverse:
        imaginaries[0] = one - other
    else:
        reals[half] = one - other
        imaginaries[0] = imaginaries[half] = 0
    roots = m.table(table, half // 2 + 1)
    for k in range(1, half // 2 + 1):
        low, high = (reals[n] + 1j * imaginaries[n] for n in (k, half - k))
        for n, value in zip((k, half - k), _mixed(low, high, roots[0].real, roots[k]), strict=True):
            reals[n], imaginaries[n] = value.real, value.imag


def _mix(
    m: _Memory,
    low: int,
    low_other: int,
    high: int,
    high_other: int,
    count: int,
    table: int,
    bits: int,
) -> None:
    parts = [m.part(each, count) for each in (low, low_other, high, high_other)]
    scale = np.int64(bits).view(np.float64)
    given = (parts[0] + 1j * parts[1], parts[2] + 1j * parts[3])
    found = _mixed(*given, scale, m.block(table, count))
    for part, value in zip(parts, (v for f in found for v in (f.real, f.imag)), strict=True):
        part[:] = value


def _twiddle(
    is_for_lanes: bool, m: _Memory, block: int, count: int, fine: int, coarse: int, rows: int
) -> None:
    table = m.block if is_for_lanes else m.table
    numbers = np.arange(count)
    factors = table(coarse, -(-count // rows))[numbers // rows]
    factors = factors * table(fine, min(count, rows))[numbers % rows]
    m.put(block, m.block(block, count) * factors)


def _move(
    form: str,
    is_load: bool,
    is_real: bool,
    m: _Memory,
    memory: int,
    real: int,
    imaginary: int,
    lines: int,
    ahead: int,
    count: int,
    bits: int,
    *of_lines: int,
) -> None:
    """Load lines into the lanes of a block or store them; a lane without a line has the last."""
    if count <= 0 or lines <= 0:
        return
    parts = 1 if is_real else 2
    factor = np.int64(bits).view(np.float64).astype(m.dtype)
    reals, imaginaries = m.part(real, count), m.part(imaginary, count)
    first, inner, outer_step, inner_step = of_lines or (0, 1, 0, 0)
    for lane in range(m.lanes):
        if not is_load and first + lane >= lines:
            return
        line = min(first + lane, lines - 1)
        if form == "columns":
            begin, step = memory + line * parts * m.width, ahead
        elif form == "lines":
            begin = memory + line // inner * outer_step + line % inner * inner_step
            step = ahead
        else:
            begin, step = memory + line * ahead, parts * m.width
        elements = m.rows(begin, count, step, parts)
        if is_load:
            reals[:, lane] = elements[:, 0]
            imaginaries[:, lane] = 0 if is_real else elements[:, 1]
        else:
            elements[:, 0] = reals[:, lane] * factor
            if not is_real:
                elements[:, 1] = imaginaries[:, lane] * factor


def _named(kind: str) -> Iterator[tuple[str, Callable[..., None]]]:
    for radix, is_last in itertools.product(RADICES, (False, True)):
        yield pass_routine(kind, radix, is_last=is_last).name, functools.partial(_pass, radix)
    yield generic_pass(kind).name, functools.partial(_pass, 0)
    for form, is_load, is_real in itertools.product(
        ("rows", "short_rows", "columns", "lines"), (True, False), (True, False)
    ):
        name = move_name(kind, form, is_load=is_load, is_real=is_real)
        yield name, functools.partial(_move, form, is_load, is_real)
    steps: dict[str, Callable[..., None]] = {
        "to_half": functools.partial(_halves, True),
        "from_half": functools.partial(_halves, False),
        "mix": _mix,
        "gather": _gather,
        "scatter": _scatter,
        "sum": functools.partial(_sum, False),
        "sum_swapped": functools.partial(_sum, True),
        "mirror": _mirror,
        "twiddle_lanes": functools.partial(_twiddle, True),
        "twiddle": functools.partial(_twiddle, False),
        "chirp": functools.partial(_chirp, ""),
        "chirp_to": functools.partial(_chirp, "result"),
        "chirp_from": functools.partial(_chirp, "operand"),
    }
    yield from ((block_routine(step, kind).name, each) for step, each in steps.items())


def _on_arrays(kind: str, function: Callable[..., None]) -> Callable[..., None]:
    return lambda arrays, *operands: function(_Memory(arrays, kind), *operands)


FOURIER = {name: _on_arrays(kind, function) for kind in _KINDS for name, function in _named(kind)}
"""Every routine of Fourier transforms by its name."""
