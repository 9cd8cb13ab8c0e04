"""reduce-precision: rounding to fewer exponent and mantissa bits.

Semantics: XLA's CPU backend: ties to even, too large becomes infinite, what the narrower format
could hold only as a denormal becomes zero, NaN stays. F16 and BF16 have their own bits rounded,
narrower types those of F16, F8E8M0FNU, which reaches further, those of F32.
"""

import ml_dtypes
import numpy as np

from xla_contract.ops.elementwise.reduce_precision import ReducePrecisionAttributes
from xla_contract.types.element_type import ElementType
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import of_operands
from xla_server.ops.numerics.numeric import Array, narrowed, widened


@of_operands
def evaluate_reduce_precision(instruction: HloInstruction, array: Array) -> Array:
    """The operand's numbers, each rounded to the format of the attributes."""
    attributes: ReducePrecisionAttributes = instruction.attributes
    element_type = instruction.shape.element_type
    if element_type is ElementType.F8E8M0FNU:
        array = widened(array, element_type)
    elif element_type.bit_width < 16:
        array = array.astype(np.float16)
    rounded = reduced(array, attributes.exponent_bits, attributes.mantissa_bits)
    return narrowed(rounded, element_type)


def reduced(array: Array, exponent_bits: int, mantissa_bits: int) -> Array:
    """Floats of 16 bits or more, rounded in their own bits."""
    own = ml_dtypes.finfo(array.dtype)  # type: ignore[no-untyped-call]
    exponent_mask = (2**own.nexp - 1) << own.nmant
    bits = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)
    sign_mask = 1 << (own.bits - 1)
    sign, bits = bits & sign_mask, bits & (sign_mask - 1)
    dropped = own.nmant - mantissa_bits
    if dropped > 0:
        half_to_even = ((bits >> dropped) & 1) + ((1 << (dropped - 1)) - 1)
        bits = (bits + half_to_even) >> dropped << dropped
    if exponent_bits < own.nexp:
        own_bias, bias = (1 << (own.nexp - 1)) - 1, (1 << (exponent_bits - 1)) - 1
        exponents = bits & exponent_mask
        bits = np.where(exponents > (own_bias + bias) << own.nmant, exponent_mask, bits)
        bits = np.where(exponents <= (own_bias - bias) << own.nmant, 0, bits)
    rounded = np.asarray(bits | sign).astype(f"u{array.dtype.itemsize}").view(array.dtype)
    return np.where(np.isnan(array), array, rounded)
