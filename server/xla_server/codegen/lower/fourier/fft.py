"""Lowering of fft: transforms of one dimension after the other, vectorised over lines.

Short lines are transformed in one kernel. A long line of n = g * m elements, or a line of a batch
too small to fill vectors, is decimated to g lines of every g-th element. Their transforms, times
roots of unity, are m lines of g elements, and the transforms of those are the result. Lengths with
a large prime factor become a convolution (Bluestein) of a length without one. The cheapest
algorithm is chosen by the costs of fft_plan.

A real line of even length is a complex one of half the length; one of odd length has imaginary
parts of zero.
"""

import math

import numpy as np

from xla_contract.ops.linear_algebra.fft import FftAttributes, FftType
from xla_contract.types.shape import Shape
from xla_server.buffers.code import Value
from xla_server.codegen.kernel_ir.routine import Operands
from xla_server.codegen.lower.fourier.fft_block import Tables
from xla_server.codegen.lower.fourier.fft_context import Array, Lines
from xla_server.codegen.lower.fourier.fft_kernels import BlockBuilder, Options
from xla_server.codegen.lower.fourier.fft_lines import LineTransforms
from xla_server.codegen.lower.fourier.fft_products import complete, half_table, mix
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.routines.fourier.fourier_blocks import block_routine
from xla_server.ir.module import HloInstruction


def lower_fft(lowering: Lowering, i: HloInstruction) -> Tree:
    """Transform dimension by dimension: the minor one last if the result is real, else first."""
    attributes: FftAttributes = i.attributes
    result = lowering.new(i.shape, i.name)
    if not i.shape.element_count:
        return result
    operand, shape = lowering.array(i.operands[0]), i.operands[0].shape
    kind, rank = attributes.type, i.shape.rank
    last, first = rank - 1, rank - len(attributes.length)
    element = i.shape.element_type
    c = LineTransforms(lowering, i.name, element.real_component)
    if kind is FftType.IRFFT:
        for dimension in range(first, last):
            name = f"{i.name}.{dimension}"
            target = lowering.new(shape, name) if dimension == first else operand
            _dimension(c, operand, target, shape, dimension, is_inverse=True)
            operand = target
        _from_spectrum(c, operand, result, i.shape)
        return result
    dimensions = list(reversed(range(first, rank)))
    if kind is FftType.RFFT:
        _to_spectrum(c, operand, result, shape)
        dimensions.remove(last)
    for dimension in dimensions:
        source = operand if dimension == last else result
        is_inverse = kind is FftType.IFFT
        _dimension(c, source, result, i.shape, dimension, is_inverse=is_inverse)
    return result


def _dimension(
    c: LineTransforms,
    source: Value,
    target: Value,
    shape: Shape,
    dimension: int,
    *,
    is_inverse: bool,
) -> None:
    """Transform one dimension of a complex array; source and target may be the same."""
    sizes = shape.dimensions
    outer, inner = (math.prod(part) for part in (sizes[:dimension], sizes[dimension + 1 :]))
    lines = Lines(outer, sizes[dimension], inner)
    factor = 1 / lines.n if is_inverse else 1.0
    c.transform(Array(source), Array(target), lines, Options(is_inverse, factor))


def _to_spectrum(c: LineTransforms, source: Value, target: Value, shape: Shape) -> None:
    """Transform the rows of a real array of this shape."""
    n, rows = shape.dimensions[-1], math.prod(shape.dimensions[:-1])
    half = n // 2
    if n % 2:
        lines = Lines(rows, n, 1)
        c.transform(Array(source, True), Array(target), lines, Options(limit=half + 1))
        return
    lines = Lines(rows, half, 1)
    if not lines.is_one_kernel(c.vectors, 2 * rows * half):
        middle = c.new(rows * half)
        c.transform(Array(source), middle, lines)
        mix(c, middle, Array(target), rows, n, is_inverse=False)
        return
    tables = Tables(c.kind)
    scale, table = half_table(n, is_inverse=False)
    address = tables.add(np.concatenate([[scale], table]))
    read, written = c.layout(Array(source), (), half, 1), c.layout(Array(target), (), half + 1, 1)
    kernel = c.kernel((), rows, read, written, (half, half + 1, half), tables=tables)
    kernel.after = _step("from_half", c.kind, {"count": half, "table": address})
    kernel.add()


def _from_spectrum(c: LineTransforms, source: Value, target: Value, shape: Shape) -> None:
    """Transform spectra to the rows of a real array of this shape."""
    n, rows = shape.dimensions[-1], math.prod(shape.dimensions[:-1])
    half, kind, way, result = n // 2, c.kind, Options(True, 1 / n), Array(target, n % 2 == 1)
    length = n if n % 2 else half
    lines = Lines(rows, length, 1)
    if not lines.is_one_kernel(c.vectors, 2 * rows * length):
        middle = c.new(rows * length)
        if n % 2:
            complete(c, Array(source), middle, rows, n)
        else:
            mix(c, Array(source), middle, rows, n, is_inverse=True)
        c.transform(middle, result, lines, way)
        return
    tables = Tables(kind)
    before = _step("mirror", kind, {"count": n})
    if n % 2 == 0:
        scale, table = half_table(n, is_inverse=True)
        address = tables.add(np.concatenate([[scale], table]))
        before = _step("to_half", kind, {"count": half, "table": address})
    read, written = c.layout(Array(source), (), half + 1, 1), c.layout(result, (), length, 1)
    kernel = c.kernel((), rows, read, written, (half + 1, length, length), way, tables)
    kernel.before = before
    kernel.add()


def _step(name: str, kind: str, operands: Operands) -> BlockBuilder:
    """Return a function that appends a call of a routine on a block's real and imaginary parts."""
    routine = block_routine(name, kind)
    return lambda body, block: body.call(
        routine, {"real": block.real, "imaginary": block.imaginary, **operands}
    )
