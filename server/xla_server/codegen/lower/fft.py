"""Lowering of fft: a kernel for each dimension, whose trips are some of the lines along it.

Each call of a transform makes its plan anew, which takes as long as six short lines: a call gets
many of them, and few of the long ones, as nothing stops a call, nor the transform of one line.
Without the native loops of codegen/instructions/transforms.py, the host evaluates it.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType

from xla_contract.opcode import Opcode
from xla_contract.ops.fft import FftAttributes, FftType
from xla_contract.shape import Shape
from xla_server.buffers.code import KernelThunk, Value
from xla_server.codegen.instructions.transforms import TRANSFORMS
from xla_server.codegen.lower.host import lower_host
from xla_server.codegen.lower.lowering import Lower, Lowering, Tree
from xla_server.ir.module import HloInstruction

MIN_LINES = 16
"""Lines that one call transforms at least, unless they are long: a plan costs as much as six."""

LONG_LINE = 1 << 15
"""Length of a line from which the plan costs about as much as one transform."""

MAX_ELEMENTS = 1 << 20
"""Elements that one call transforms at most, where it may have fewer lines: some ten milliseconds,
in which the execution cannot be cancelled."""

WORK_ITEMS = 64
"""Work items of a transform from which only MAX_ELEMENTS asks for more."""


def lower_fft(lowering: Lowering, i: HloInstruction) -> Tree:
    """The real side's dimension where it has one, the others in place, in the complex array."""
    if not TRANSFORMS:
        return lower_host(lowering, i)
    attributes: FftAttributes = i.attributes
    result = lowering.new(i.shape, i.name)
    if not i.shape.element_count:
        return result
    operand, shape = lowering.array(i.operands[0]), i.operands[0].shape
    kind, rank = attributes.type, i.shape.rank
    last, first = rank - 1, rank - len(attributes.length)
    if kind is FftType.IRFFT:
        for dimension in range(first, last):
            name = f"{i.name}.{dimension}"
            target = lowering.new(shape, name) if dimension == first else operand
            _add(lowering, name, "ifft", operand, shape, target, dimension)
            operand = target
        _add(lowering, i.name, "irfft", operand, shape, result, last)
        return result
    leading = "ifft" if kind is FftType.IFFT else "fft"
    name = leading
    if kind is FftType.RFFT:
        name = "rfft_n_odd" if attributes.length[-1] % 2 else "rfft_n_even"
    _add(lowering, i.name, name, operand, shape, result, last)
    for dimension in range(first, last):
        _add(lowering, f"{i.name}.{dimension}", leading, result, result.shape, result, dimension)
    return result


def _add(
    lowering: Lowering,
    name: str,
    transform: str,
    source: Value,
    shape: Shape,
    target: Value,
    dimension: int,
) -> None:
    """The row that transforms one dimension, in place where source and target are the same.

    `shape` is the source's.
    """
    old, new = shape.element_type, target.shape.element_type
    real = min(old, new, key=lambda element: element.byte_width)
    real = real.real_component if real.is_complex else real
    size, new_size = (part.dimensions[dimension] for part in (shape, target.shape))
    outer = math.prod(shape.dimensions[:dimension])
    inner = math.prod(shape.dimensions[dimension + 1 :])
    # Bytes from line to line in both ways there are to go, and from element to element.
    across = (old.byte_width, new.byte_width)
    along = (size * inner * old.byte_width, new_size * inner * new.byte_width)
    step_in, step_out = inner * old.byte_width, inner * new.byte_width
    # A call goes one way: the longer one, so that there are few calls.
    batch, groups, ahead, apart = (
        (inner, outer, across, along) if inner > outer else (outer, inner, along, across)
    )
    pieces = 1
    fewest = MIN_LINES if new_size < LONG_LINE else 1
    while 2 * pieces * fewest <= batch and (
        pieces * groups < WORK_ITEMS or batch // pieces * new_size > MAX_ELEMENTS
    ):
        pieces *= 2
    inverse = transform in ("ifft", "irfft")
    source_text = f"""def kernel(buffers, start, stop):
    target = peek_i64(buffers, 0)
    source = {"target" if source is target else "peek_i64(buffers, 1)"}
    factor = div(to_{real.text}(1), to_{real.text}({new_size if inverse else 1}))
    for trip in range(start, stop):
        group = whole_div(trip, {pieces})
        piece = whole_mod(trip, {pieces})
        first = whole_div(piece * {batch}, {pieces})
        {transform}_{real.text}((source + group * {apart[0]} + first * {ahead[0]},
            target + group * {apart[1]} + first * {ahead[1]},
            whole_div((piece + 1) * {batch}, {pieces}) - first, {size}, {new_size},
            {ahead[0]}, {ahead[1]}, {step_in}, {step_out}), factor)
"""
    others = () if source is target else (source,)
    # About five operations for each doubling of the size.
    work = 5 * new_size * max(1, new_size.bit_length()) * -(-batch // pieces)
    lowering.add(
        KernelThunk(
            name,
            source_text,
            groups * pieces,
            work,
            (target, *others),
            others,
            (target,),
            updates=() if others else (target,),
        )
    )


FFT_LOWERINGS: Mapping[Opcode, Lower] = MappingProxyType({Opcode.FFT: lower_fft})
