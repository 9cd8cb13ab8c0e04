"""Operations on the bits of integers.

Semantics: XLA's CPU backend: shifting by the width or more shifts everything out.
"""

import numpy as np

from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ops.elementwise import elementwise_op as op
from xla_server.ops.numerics.numeric import (
    Array,
    from_bits,
    high_product,
    unsigned_bits,
    widened,
)


def _count_leading_zeros(x: Array, element_type: ElementType) -> Array:
    """Number of leading zero bits."""
    bits = unsigned_bits(x, element_type)
    length = np.zeros_like(bits)
    for position in range(element_type.bit_width):
        length += (bits >> np.uint64(position)) != 0
    return from_bits(np.uint64(element_type.bit_width) - length, element_type)


def _population_count(x: Array, element_type: ElementType) -> Array:
    """Number of set bits; S4 is counted as a sign-extended byte."""
    in_a_byte = element_type is ElementType.S4
    bits = unsigned_bits(x, ElementType.S8 if in_a_byte else element_type)
    count = np.zeros_like(bits)
    for position in range(8 if in_a_byte else element_type.bit_width):
        count += (bits >> np.uint64(position)) & np.uint64(1)
    return from_bits(count, element_type)


def _shift_left(x: Array, amount: Array, element_type: ElementType) -> Array:
    """Bits moved up; the amount is read as unsigned."""
    bits, by = unsigned_bits(x, element_type), unsigned_bits(amount, element_type)
    fits = by < element_type.bit_width
    return from_bits(np.where(fits, bits << np.where(fits, by, 0), 0), element_type)


def _shift_right_logical(x: Array, amount: Array, element_type: ElementType) -> Array:
    """Logical right shift: zeros are shifted in; the amount is read as unsigned."""
    bits, by = unsigned_bits(x, element_type), unsigned_bits(amount, element_type)
    fits = by < element_type.bit_width
    return from_bits(np.where(fits, bits >> np.where(fits, by, 0), 0), element_type)


def _shift_right_arithmetic(x: Array, amount: Array, element_type: ElementType) -> Array:
    """Arithmetic right shift: the highest bit is shifted in, of unsigned types too."""
    width = element_type.bit_width
    bits, by = unsigned_bits(x, element_type), unsigned_bits(amount, element_type)
    unused = np.uint64(64 - width)
    extended = (bits << unused).view(np.int64) >> unused.astype(np.int64)
    shifted = extended >> np.minimum(by, width - 1).astype(np.int64)
    return from_bits(np.asarray(shifted).view(np.uint64), element_type)


def _multiply_high(x: Array, y: Array, element_type: ElementType) -> Array:
    """The upper half of the product, which has twice the width."""
    if element_type.bit_width < 64:
        wide = np.int64 if element_type.is_signed_integer else np.uint64
        product = widened(x, element_type).astype(wide) * widened(y, element_type).astype(wide)
        high = np.asarray(product >> wide(element_type.bit_width))
        return from_bits(high.view(np.uint64), element_type)
    x_bits, y_bits = unsigned_bits(x, element_type), unsigned_bits(y, element_type)
    high = high_product(x_bits, y_bits)
    if element_type.is_signed_integer:
        # x read as unsigned is 2**64 too large where x is negative, and so is y.
        high = high - np.where(x < 0, y_bits, 0) - np.where(y < 0, x_bits, 0)
    return from_bits(np.asarray(high), element_type)


BITWISE: op.Rows = {
    Opcode.AND: op.ElementwiseOp(np.bitwise_and, "bit_and"),
    Opcode.COUNT_LEADING_ZEROS: op.bits(_count_leading_zeros, "clz"),
    Opcode.MULHI: op.bits(_multiply_high, "mulhi"),
    Opcode.NOT: op.ElementwiseOp(np.invert, "bit_not"),
    Opcode.OR: op.ElementwiseOp(np.bitwise_or, "bit_or"),
    Opcode.POPCNT: op.bits(_population_count, "popcnt"),
    Opcode.SHIFT_LEFT: op.bits(_shift_left, "shift_left"),
    Opcode.SHIFT_RIGHT_ARITHMETIC: op.bits(_shift_right_arithmetic, "shift_right_arithmetic"),
    Opcode.SHIFT_RIGHT_LOGICAL: op.bits(_shift_right_logical, "shift_right_logical"),
    Opcode.XOR: op.ElementwiseOp(np.bitwise_xor, "bit_xor"),
}
"""The rows by opcode."""
