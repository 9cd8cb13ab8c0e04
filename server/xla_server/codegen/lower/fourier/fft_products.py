"""Elementwise kernels of Fourier transforms: products, copies, spectra of real lines."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from xla_server.codegen.instructions.memory import CLEAR_BYTES
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Branch, Items, Loop
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.fourier.fft_block import SOURCE, TARGET, Tables
from xla_server.codegen.lower.fourier.fft_context import Array, Context, Lines
from xla_server.codegen.lower.fourier.fft_kernels import (
    add_kernel,
    bits_of,
    line_operands,
    move_operands,
)
from xla_server.codegen.lower.fourier.fft_plan import roots
from xla_server.codegen.routines.fourier.fourier_blocks import block_routine
from xla_server.codegen.routines.fourier.fourier_moves import move_routine


def product(
    c: Context,
    source: Array,
    target: Array,
    lines: Lines,
    table: Any,
    target_size: int,
    count: int,
    *,
    is_inverse: bool,
) -> None:
    """Multiply the first `count` elements of lines by a table's, from one array to another.

    Lines are contiguous, those of the target with `target_size` elements. For an inverse transform
    real and imaginary parts are exchanged before and after.
    """
    vector = c.pair // 2
    real, imaginary = (vector, 0) if is_inverse else (0, vector)
    full, rest = divmod(count, c.lanes)
    vectors = full + (rest > 0)
    most = c.tuned.item_vectors
    chunks = -(-vectors // most)
    tables = Tables(c.kind)
    ones = tables.add(_by_lanes(np.ones(c.lanes, np.complex128), c.lanes))
    address = tables.add(_by_lanes(table[:count], c.lanes))
    top, block = Body(), ir.StackArray("a", most * c.pair)
    a = ir.Address(block)
    with Items(top, lines.outer * chunks, "item") as items:
        line = items.let("line", items.axis // chunks)
        chunk = items.let("chunk", items.axis % chunks)
        first = items.let("first", chunk * most)
        extent = items.let("count", ir.integer_op("minimum", most, ir.whole(vectors) - first))
        left = items.let("rest", (chunk + 1) // chunks * rest)
        whole_vectors = items.let("full", ir.integer_op("minimum", extent, ir.whole(full) - first))
        for memory, array, size, is_load in (
            (SOURCE, source, lines.n, True),
            (TARGET, target, target_size, False),
        ):
            width = c.width if array.is_real else 2 * c.width
            move = move_routine(c.kind, "columns", is_load=is_load, is_real=array.is_real)
            ahead = c.lanes * width
            if not is_load:
                factors = {"fine": address + first * c.pair, "coarse": ones, "rows": extent}
                operands = {"block": a, "count": extent, **factors}
                items.call(block_routine("twiddle_lanes", c.kind), operands)
            at = ir.Address(memory) + line * (size * width) + first * ahead
            at = items.let("read" if is_load else "written", at)
            parts = a + real, a + imaginary
            arguments = move_operands(at, *parts, c.lanes, ahead, whole_vectors)
            items.call(move, arguments)
            one, other = (part + whole_vectors * c.pair for part in parts)
            arguments = move_operands(at + whole_vectors * ahead, one, other, left, ahead, 1)
            items.call(move, arguments)
    add_kernel(c.lowering, c.title(), top, [block], source.value, target.value, tables)


def _by_lanes(numbers: Any, width: int) -> Any:
    """Complex numbers as vectors of real parts, each followed by one of imaginary parts.

    The last vector is padded with the last number.
    """
    numbers = np.concatenate([numbers, np.repeat(numbers[-1:], -numbers.size % width)])
    parts = np.stack([numbers.real, numbers.imag], -1)
    return parts.reshape(-1, width, 2).transpose(0, 2, 1)


def half_table(n: int, *, is_inverse: bool) -> tuple[float, Any]:
    """Return (scale, factors for k = 1 to n // 4) of `from_half`, or of `to_half`."""
    powers = roots(n, np.arange(1, n // 4 + 1))
    return (1.0, 1j * np.conj(powers)) if is_inverse else (0.5, -0.5j * powers)


def mix(c: Context, source: Array, target: Array, rows: int, n: int, *, is_inverse: bool) -> None:
    """Convert between transforms of half the length n and spectra of real lines."""
    half, kind, width = n // 2, c.kind, 2 * c.width
    scale, table = half_table(n, is_inverse=is_inverse)
    pairs = table.size
    read, written = (half + 1, half) if is_inverse else (half, half + 1)
    vectors = -(-pairs // c.lanes)
    most = c.tuned.item_vectors
    chunks = max(1, -(-vectors // most))
    tables = Tables(kind)
    top, blocks = Body(), [ir.StackArray(name, most * c.pair) for name in "ab"]
    with Items(top, rows * chunks, "item") as items:
        line = items.let("line", items.axis // chunks)
        chunk = items.let("chunk", items.axis % chunks)
        read_at = items.let("read", ir.Address(SOURCE) + line * (read * width))
        written_at = items.let("written", ir.Address(TARGET) + line * (written * width))
        with Branch(items, ir.condition("eq", chunk, 0)) as ends:
            one = ends.let("one", ir.load_at(kind, read_at, 0))
            other = ends.let("other", ir.load_at(kind, read_at, 2 * half if is_inverse else 1))
            total, difference = (
                ir.Apply(name, (one, other), Type(kind)) for name in ("add", "sub")
            )
            ends.store_at(kind, written_at, 0, total)
            ends.store_at(kind, written_at, 1 if is_inverse else 2 * half, difference)
            if not is_inverse:
                ends.store_at(kind, written_at, 1, _zero(kind))
                ends.store_at(kind, written_at, 2 * half + 1, _zero(kind))
        if pairs:
            address = tables.add(_by_lanes(table, c.lanes))
            first = items.let("first", chunk * most)
            count = items.let("count", ir.integer_op("minimum", most, ir.whole(vectors) - first))
            rest = ir.whole(pairs // c.lanes) - first
            full = items.let("full", ir.integer_op("minimum", count, rest))
            a, b = map(ir.Address, blocks)
            numbers = (first, count, full)
            _move_pairs(c, items, (a, b), read_at, half, pairs, numbers, is_load=True)
            vector = c.pair // 2
            mixed = {"low": a, "low_swapped": a + vector, "high": b, "high_swapped": b + vector}
            factors = {"table": address + first * c.pair, "scale": bits_of(scale)}
            items.call(block_routine("mix", kind), {**mixed, "count": count, **factors})
            _move_pairs(c, items, (a, b), written_at, half, pairs, numbers, is_load=False)
    add_kernel(c.lowering, c.title(), top, blocks, source.value, target.value, tables)


def _move_pairs(
    c: Context,
    body: Body,
    blocks: tuple[ir.Expression, ir.Expression],
    begin_at: ir.Expression,
    half: int,
    pairs: int,
    numbers: tuple[ir.Value, ir.Value, ir.Value],
    *,
    is_load: bool,
) -> None:
    """Move the pairs of a line, elements k and half - k, between memory and two blocks."""
    (a, b), (first, count, full) = blocks, numbers
    width, vector = 2 * c.width, c.pair // 2
    step, behind = c.lanes * width, full * c.pair
    columns, lines = (
        move_routine(c.kind, form, is_load=is_load, is_real=False) for form in ("columns", "lines")
    )
    end = ir.whole(pairs) - (first + full) * c.lanes
    up = begin_at + width + first * step
    down = begin_at + (half - 1) * width - first * step
    body.call(columns, move_operands(up, a, a + vector, c.lanes, step, full))
    with Branch(body, ir.condition("gt", full, 0)) as inside:
        operands = move_operands(down, b, b + vector, c.lanes, -step, full)
        inside.call(lines, operands | line_operands(0, c.lanes, 0, -width))
    with Branch(body, ir.condition("lt", full, count)) as inside:
        for at, block, ahead in ((up + full * step, a, width), (down - full * step, b, -width)):
            parts = block + behind, block + vector + behind
            operands = move_operands(at, *parts, end, 0, 1)
            inside.call(lines, operands | line_operands(0, c.lanes, 0, ahead))


def complete(c: Context, source: Array, target: Array, rows: int, n: int) -> None:
    """Complete spectra of real lines of odd length n: element n - k is the conjugate of k."""
    kind = c.kind
    half = n // 2 + 1
    with _each_element(c, source, target, rows, half) as (body, line, begin, end):
        at = body.let("at", ir.Address(SOURCE) + line * (half * 2 * c.width))
        there = body.let("there", ir.Address(TARGET) + line * (n * 2 * c.width))
        with Branch(body, ir.condition("eq", begin, 0)) as zeroth:
            zeroth.store_at(kind, there, 0, ir.load_at(kind, at, 0))
            zeroth.store_at(kind, there, 1, _zero(kind))
        low = ir.integer_op("maximum", begin, 1)
        with Loop(body, "k", end, low, iterations=c.tuned.item_elements) as loop:
            k = loop.axis
            one = loop.let("one", ir.load_at(kind, at, k * 2))
            other = loop.let("other", ir.load_at(kind, at, k * 2 + 1))
            loop.store_at(kind, there, k * 2, one)
            loop.store_at(kind, there, k * 2 + 1, other)
            loop.store_at(kind, there, ir.whole(2 * n) - k * 2, one)
            conjugate = ir.Apply("neg", (other,), Type(kind))
            loop.store_at(kind, there, ir.whole(2 * n) - k * 2 + 1, conjugate)


def copy_rows(c: Context, source: Array, target: Array, rows: int, n: int, count: int) -> None:
    """Copy the first `count` elements of rows of n complex numbers, or their real parts."""
    kind = c.kind
    parts = 1 if target.is_real else 2
    with _each_element(c, source, target, rows, count) as (body, line, begin, end):
        at = body.let("at", ir.Address(SOURCE) + line * (n * 2 * c.width))
        there = body.let("there", ir.Address(TARGET) + line * (count * parts * c.width))
        with Loop(body, "k", end, begin, iterations=c.tuned.item_elements) as loop:
            for part in range(parts):
                element = ir.load_at(kind, at, loop.axis * 2 + part)
                loop.store_at(kind, there, loop.axis * parts + part, element)


def clear_ends(c: Context, target: Array, rows: int, n: int, size: int) -> None:
    """Fill rows of `size` complex numbers with zeros from element n on."""
    width, effort = 2 * c.width, Effort.UNOPTIMISED
    with _each_element(c, target, target, rows, size - n, effort) as (body, line, begin, end):
        at = ir.Address(TARGET) + (line * size + n + begin) * width
        body.call(CLEAR_BYTES, {"target": at, "count": (end - begin) * width})


@contextlib.contextmanager
def _each_element(
    c: Context,
    source: Array,
    target: Array,
    rows: int,
    count: int,
    effort: Effort = Effort.OPTIMISED,
) -> Iterator[tuple[Body, ir.Value, ir.Value, ir.Value]]:
    """Build a kernel whose work items process elements `begin` to `end` - 1 of a line each.

    A context manager: yields (body, line, begin, end) to build it with.
    """
    most = c.tuned.item_elements
    chunks = -(-count // most)
    top = Body()
    with Items(top, rows * chunks, "item") as items:
        line = items.let("line", items.axis // chunks)
        begin = items.let("begin", items.axis % chunks * most)
        end = items.let("end", ir.integer_op("minimum", begin + most, count))
        yield items, line, begin, end
    values = source.value, target.value
    add_kernel(c.lowering, c.title(), top, [], *values, effort=effort)


def _zero(kind: str) -> ir.Const:
    return ir.Const(Type(kind), (0,))
