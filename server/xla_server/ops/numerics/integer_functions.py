"""Elementwise functions of integers that numpy lacks or defines otherwise.

Semantics: XLA's CPU backend. There are no traps: overflow wraps, x / 0 is -1 (all bits set) and x %
0 is x, and shifting by the width or more shifts everything out.
"""

import numpy as np

from xla_contract.types.element_type import ElementType
from xla_server.ops.numerics.numeric import Array, from_bits, unsigned_bits, widened

EXPONENT_BITS = 6
"""Low bits of an exponent that count: only powers of 1 and -1 do not wrap beyond 63."""


def divide(x: Array, y: Array) -> Array:
    """Division towards zero; by zero -1, and the smallest number by -1 is itself."""
    quotient = x // np.where(_undividable(x, y), np.ones_like(y), y)
    exact = quotient * y == x
    towards_zero = quotient + ((x < 0) != (y < 0)) * ~exact
    minus_one = np.full_like(x, -1 if x.dtype.kind == "i" else np.iinfo(x.dtype).max)
    defined = np.where(_undividable(x, y), x, towards_zero.astype(x.dtype))
    return np.where(y == 0, minus_one, defined)


def remainder(x: Array, y: Array) -> Array:
    """Remainder of division towards zero, with the sign of x; x % 0 is x."""
    rest = np.fmod(x, np.where(_undividable(x, y), np.ones_like(y), y))
    return np.where(y == 0, x, rest)


def _undividable(x: Array, y: Array) -> Array:
    overflows = (x == np.iinfo(x.dtype).min) & (y == -1) if x.dtype.kind == "i" else False
    return np.asarray((y == 0) | overflows)


def power(base: Array, exponent: Array) -> Array:
    """Base to the exponent, wrapping; negative exponents leave 0 except of 1 and -1.

    Only the low 6 bits of other exponents count. An exponent of an unsigned type with its highest
    bit set is read as the negative number with the same bits, and so is a base of all ones.
    """
    result, square = np.ones_like(base), base
    for position in range(EXPONENT_BITS):
        result = np.where((exponent >> position) & 1, result * square, result)
        square = square * square
    signed = np.dtype(f"i{base.dtype.itemsize}")
    base_bits, exponent_bits = (np.asarray(side).view(signed) for side in (base, exponent))
    sign = np.where(exponent_bits & 1, base, np.ones_like(base))
    reciprocal = np.where(np.abs(base_bits) == 1, sign, np.zeros_like(base))
    return np.where(exponent_bits < 0, reciprocal, result)


def count_leading_zeros(x: Array, element_type: ElementType) -> Array:
    """Number of leading zero bits."""
    bits = unsigned_bits(x, element_type)
    length = np.zeros_like(bits)
    for position in range(element_type.bit_width):
        length += (bits >> np.uint64(position)) != 0
    return from_bits(np.uint64(element_type.bit_width) - length, element_type)


def population_count(x: Array, element_type: ElementType) -> Array:
    """Number of set bits; S4 is counted as a sign-extended byte."""
    in_a_byte = element_type is ElementType.S4
    bits = unsigned_bits(x, ElementType.S8 if in_a_byte else element_type)
    count = np.zeros_like(bits)
    for position in range(8 if in_a_byte else element_type.bit_width):
        count += (bits >> np.uint64(position)) & np.uint64(1)
    return from_bits(count, element_type)


def shift_left(x: Array, amount: Array, element_type: ElementType) -> Array:
    """Bits moved up; the amount is read as unsigned."""
    bits, by = unsigned_bits(x, element_type), unsigned_bits(amount, element_type)
    fits = by < element_type.bit_width
    return from_bits(np.where(fits, bits << np.where(fits, by, 0), 0), element_type)


def shift_right_logical(x: Array, amount: Array, element_type: ElementType) -> Array:
    """Bits moved down, zeros moved in; the amount is read as unsigned."""
    bits, by = unsigned_bits(x, element_type), unsigned_bits(amount, element_type)
    fits = by < element_type.bit_width
    return from_bits(np.where(fits, bits >> np.where(fits, by, 0), 0), element_type)


def shift_right_arithmetic(x: Array, amount: Array, element_type: ElementType) -> Array:
    """Bits moved down, the highest bit moved in, of unsigned types too."""
    width = element_type.bit_width
    bits, by = unsigned_bits(x, element_type), unsigned_bits(amount, element_type)
    unused = np.uint64(64 - width)
    extended = (bits << unused).view(np.int64) >> unused.astype(np.int64)
    shifted = extended >> np.minimum(by, width - 1).astype(np.int64)
    return from_bits(np.asarray(shifted).view(np.uint64), element_type)


def multiply_high(x: Array, y: Array, element_type: ElementType) -> Array:
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


def high_product(x: Array, y: Array) -> Array:
    """The upper 64 bits of products of 64 bits without sign, made of products of 32."""
    half, low = np.uint64(32), np.uint64(2**32 - 1)
    middle = (x >> half) * (y & low) + (((x & low) * (y & low)) >> half)
    other = (x & low) * (y >> half) + (middle & low)
    return np.asarray((x >> half) * (y >> half) + (middle >> half) + (other >> half))
