"""convert: numbers from any element type to any other.

Semantics: XLA's CPU backend: to integers from floats towards zero, saturating, NaN as 0; from
integers to integers wrapping; to PRED whether not zero; from complex the real part. Where the
processor converts, not a sequence of instructions on bits, it takes subnormal numbers for zero.
"""

import ml_dtypes
import numpy as np

from xla_contract.types.element_type import ElementType
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import of_operands
from xla_server.ops.numerics.complex_numbers import from_parts
from xla_server.ops.numerics.numeric import (
    WITHOUT_NAN,
    Array,
    flushed,
    narrowed,
    saturated,
    widened,
)
from xla_server.ops.numerics.subnormals import subnormals_kept


@of_operands
def evaluate_convert(instruction: HloInstruction, operand: Array) -> Array:
    """The operand in the element type of the result."""
    source = instruction.operands[0].shape.element_type
    return converted(operand, source, instruction.shape.element_type)


def converted(array: Array, source: ElementType, target: ElementType) -> Array:
    """An array of element type `source` as one of `target`."""
    if source is target:
        return array
    # `_converted` decides type by type which conversions lose subnormal numbers.
    with subnormals_kept():
        return _converted(array, source, target)


def _converted(array: Array, source: ElementType, target: ElementType) -> Array:
    if source.is_complex and not target.is_complex and target is not ElementType.PRED:
        array, source = array.real, source.real_component
    if target is ElementType.PRED:
        numbers = widened(array, source)
        return np.asarray((flushed(numbers) if source in _FLUSHED_TO_PRED else numbers) != 0)
    if target.is_integer and source.is_floating:
        floats = widened(array, source)
        if source in WITHOUT_NAN:
            # XLA compares with the integer's bounds rounded to the float's type, where too large
            # a bound becomes the largest number: that one saturates like an infinity.
            largest = floats.dtype.type(ml_dtypes.finfo(source.dtype).max)  # type: ignore[no-untyped-call]
            floats = np.where(np.abs(floats) == largest, np.copysign(np.inf, floats), floats)
        return saturated(floats, target)
    if source.is_complex and target.is_complex:
        # Part by part, as the parts alone would be.
        parts = (
            _converted(part, source.real_component, target.real_component)
            for part in (array.real, array.imag)
        )
        return from_parts(*parts)
    wide = widened(array, source)
    if source.is_integer and target.is_floating and target.bit_width < 32:
        # XLA rounds to F32 on the way from integers to narrower floats.
        wide = wide.astype(np.float32)
    if target in (ElementType.F64, ElementType.C128) and source in _FLUSHED_TO_F64:
        wide = flushed(wide)
    if source is ElementType.F64 and target in _FLUSHED_FROM_F64:
        wide = flushed(narrowed(wide, ElementType.F32))
    if source is ElementType.F64 and target is ElementType.F8E8M0FNU:
        wide = np.where(np.abs(wide) < _SMALLEST_SCALE, 0.0, wide)
    return narrowed(wide, target)


_FLUSHED_TO_PRED = (ElementType.F32, ElementType.F64, ElementType.F8E8M0FNU)
_FLUSHED_TO_F64 = (ElementType.F32, ElementType.BF16)
_FLUSHED_FROM_F64 = (ElementType.F32, ElementType.C64, ElementType.BF16)
_SMALLEST_SCALE = 2.0**-127
"""The smallest number of F8E8M0FNU, and its only one that is subnormal in F32."""
