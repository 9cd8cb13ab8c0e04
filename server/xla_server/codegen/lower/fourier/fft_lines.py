"""Transforms of lines of complex numbers: in one kernel, decimated, or as a convolution."""

import functools
import math

import numpy as np

from xla_contract.types.shape import Shape
from xla_server.codegen.kernel_ir.builder import Body
from xla_server.codegen.lower.fourier import fft_plan as plan
from xla_server.codegen.lower.fourier.fft_block import Tables
from xla_server.codegen.lower.fourier.fft_context import FORWARD, Array, Context, Lines
from xla_server.codegen.lower.fourier.fft_kernels import (
    BlockBuilder,
    LineLayout,
    Options,
    Tile,
    add_fused,
)
from xla_server.codegen.lower.fourier.fft_products import clear_ends, copy_rows, product
from xla_server.codegen.lower.movement.reordering import permuted, reorder
from xla_server.codegen.routines.fourier.fourier_blocks import block_routine


class LineTransforms(Context):
    """The transforms of one instruction."""

    def transform(
        self, source: Array, target: Array, lines: Lines, options: Options = FORWARD
    ) -> None:
        """Transform lines; source and target may be the same.

        Real operands and results, and limits, are for lines whose `inner` is 1.
        """
        way = self._one_kernel if lines.is_one_kernel(self.vectors) else self._cut
        if way == self._cut and lines.convolution_cost(self.vectors) < lines.cut(self.vectors)[0]:
            way = self._convolution
        way(source, target, lines, options)

    def _one_kernel(self, source: Array, target: Array, lines: Lines, options: Options) -> None:
        n, inner = lines.n, lines.inner
        stored = options.limit or n
        read = self.layout(source, (n * inner,), 1, inner)
        written = self.layout(target, (stored * inner,), 1, inner)
        way = Options(options.is_inverse, options.factor)
        self.kernel((lines.outer,), inner, read, written, (n, stored, n), way).add()

    def _cut(self, source: Array, target: Array, lines: Lines, options: Options) -> None:
        """Transform lines of every g-th element, multiply by roots, transform lines across them."""
        n, inner = lines.n, lines.inner
        _, g = lines.cut(self.vectors)
        m = n // g
        is_narrow = lines.is_narrow(self.vectors)
        tables = Tables(self.kind)
        whole = n * inner
        byte_size = whole * 2 * self.width
        is_fused = (
            lines.outer >= self.tuned.min_fused_lines
            and byte_size <= self.tuned.max_fused_bytes
            and is_narrow
            and self.vectors.block_cost(g) < math.inf
        )
        middle = Array(source.value) if is_fused else self.new(lines.outer * whole)
        step = 0 if is_fused else whole
        if is_narrow:
            sizes: tuple[int, ...] = (lines.outer,)
            read = self.layout(source, (whole,), 1, g * inner)
            written = self.layout(middle, (step,), 1, g * inner)
        else:
            sizes = (lines.outer, g)
            read = self.layout(source, (whole, inner), 1, g * inner)
            written = self.layout(middle, (whole, inner), 1, g * inner)
        across, way = g * inner if is_narrow else inner, Options(options.is_inverse)
        first = self.kernel(sizes, across, read, written, (m, m, m), way, tables)
        first.after = self._twiddle(tables, lines, g, is_narrow=is_narrow)
        first.has_lane_tables = True
        if not is_fused:
            first.add()
        if self.vectors.block_cost(g) == math.inf:
            self.transform(middle, middle, lines.rest(m), way)
            self._swap(middle, target, lines, g, options)
            return
        stored = options.limit or n
        if is_narrow:
            sizes, across = (lines.outer,), m * inner
            read = self._across(middle, (step,), lines, g)
            written = self.layout(target, (stored * inner,), 1, m * inner)
        else:
            sizes, across = (lines.outer, m), inner
            read = self.layout(middle, (whole, g * inner), 1, inner)
            written = self.layout(target, (whole, inner), 1, m * inner)
        shared = tables if is_fused else None
        then = self.kernel(sizes, across, read, written, (g, g, g), options, shared)
        if is_fused:
            add_fused(first, then, lines.outer, byte_size)
        else:
            then.add()

    def _across(self, array: Array, steps: tuple[int, ...], lines: Lines, g: int) -> LineLayout:
        """Return the layout of the lines of g elements in [m, g, inner]."""
        inner = lines.inner
        if inner == 1:
            return self.layout(array, steps, g, 1)
        return self.layout(array, steps, 1, inner, (inner, g * inner))

    def _twiddle(self, tables: Tables, lines: Lines, g: int, *, is_narrow: bool) -> BlockBuilder:
        """Return a builder that multiplies element k of line j by exp(-2 pi i j k / n)."""
        n, m = lines.n, lines.n // g
        rows = m if n <= self.tuned.max_full_table else 1 << math.ceil(math.log2(m) / 2)
        steps = -(-m // rows)
        line = np.arange(g)
        if is_narrow:
            blocks = -(-g * lines.inner // self.lanes)
            line = np.arange(blocks * self.lanes) // lines.inner % g
        addresses = []
        for count, step in ((rows, 1), (steps, rows)):
            table = plan.roots(n, np.arange(count) * step * line[:, None])
            if is_narrow:
                table = np.stack([table.real, table.imag], -1)
                table = table.reshape(-1, self.lanes, count, 2).transpose(0, 2, 3, 1)
            size = count * (self.pair if is_narrow else 2 * self.width)
            addresses.append((tables.add(table), size))

        def twiddle(body: Body, block: Tile) -> None:
            number = block.number if is_narrow else block.outer[1]
            fine, coarse = (address + number * size for address, size in addresses)
            routine = block_routine("twiddle_lanes" if is_narrow else "twiddle", self.kind)
            factors = {"fine": fine, "coarse": coarse, "rows": rows}
            body.call(routine, {"block": block.address, "count": m, **factors})

        return twiddle

    def _swap(self, source: Array, target: Array, lines: Lines, g: int, options: Options) -> None:
        """Copy [outer, m, g, inner] to [outer, g, m, inner]."""
        n, m, inner = lines.n, lines.n // g, lines.inner
        chunk = max(d for d in plan.divisors(g) if d <= self.tuned.max_block_elements)
        way = Options(factor=options.factor)
        if options.limit or target.is_real:
            whole = self.new(lines.outer * n)
            self._swap(source, whole, lines, g, way)
            copy_rows(self, whole, target, lines.outer, n, options.limit or n)
            return
        if lines.is_narrow(self.vectors):
            sizes: tuple[int, ...] = (lines.outer, g // chunk)
            across = m * inner
            read = self._across(source, (n * inner, chunk * inner), lines, g)
            written = self.layout(target, (n * inner, chunk * m * inner), 1, m * inner)
        else:
            sizes, across = (lines.outer, m, g // chunk), inner
            read = self.layout(source, (n * inner, g * inner, chunk * inner), 1, inner)
            written = self.layout(target, (n * inner, inner, chunk * m * inner), 1, m * inner)
        self.kernel(sizes, across, read, written, (chunk, chunk, 0), way).add()

    def _convolution(self, source: Array, target: Array, lines: Lines, options: Options) -> None:
        """Bluestein's algorithm: x times a chirp, convolved with its conjugate, times the chirp.

        Lines are first copied so that their elements are contiguous.
        """
        if lines.inner > 1:
            element = target.value.shape.element_type
            shape = Shape.array(element, (lines.outer, lines.n, lines.inner))
            near = permuted(shape, (0, 2, 1))
            moved, made = (Array(self.lowering.new(near, self.title())) for _ in range(2))
            reorder(self.lowering, source.value, shape, (0, 2, 1), moved.value)
            self._convolution(moved, made, Lines(lines.outer * lines.inner, lines.n, 1), options)
            reorder(self.lowering, made.value, near, (0, 2, 1), target.value)
            return
        is_inverse = options.is_inverse
        n, count = lines.n, lines.outer
        size = plan.padded_length(n)
        padded, other = self.new(count * size), self.new(count * size)
        long = Lines(count, size, 1)
        chirp = plan.chirp_of(n)
        multiply = functools.partial(product, self, is_inverse=is_inverse)
        multiply(source, padded, lines, chirp, size, n)
        clear_ends(self, padded, count, n, size)
        self.transform(padded, other, long, Options(is_inverse))
        multiply(other, other, long, plan.spectrum_of(n, size), size, size)
        self.transform(other, padded, long, Options(not is_inverse))
        stored = options.limit or n
        multiply(padded, target, long, chirp * options.factor, stored, stored)
