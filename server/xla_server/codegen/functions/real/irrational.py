"""Irrational numbers as sums of floats, from their digits."""

import functools
from fractions import Fraction

import numpy as np

LN2 = Fraction("0.693147180559945309417232121458176568075500134360255254120680009493393621969695")
PI = Fraction("3.141592653589793238462643383279502884197169399375105820974944592307816406286209")

_WHOLE = {"f32": 24, "f64": 53}
"""Bits of a significand."""


def rounded_to(value: Fraction, name: str) -> float:
    """Return the nearest number of a float type."""
    return float(np.float32(float(value))) if name == "f32" else float(value)


def parts(value: Fraction, name: str, spare: int = 0, count: int = 2) -> tuple[float, ...]:
    """Floats of a type whose sum is near; the last `spare` bits of the first are zero."""
    found: list[float] = []
    for number in range(count):
        kept = spare and not number
        part = leading(value, _WHOLE[name] - spare) if kept else value
        found.append(rounded_to(part, name))
        value -= Fraction(found[-1])
    return tuple(found)


def leading(value: Fraction, count: int) -> Fraction:
    """Return the first `count` bits of a number, or one bit less."""
    if value < 0:
        return -leading(-value, count)
    if not value:
        return value
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    scale = Fraction(2) ** (count - exponent)
    whole = int(value * scale / 2)
    return Fraction(whole) * 2 / scale


LN2_PARTS = {"f32": parts(LN2, "f32", 10), "f64": parts(LN2, "f64", 13)}
"""ln 2 as a sum of two floats; products of the first and any exponent are exact."""

HALF_PI_PARTS = {name: parts(PI / 2, name) for name in _WHOLE}
QUARTER_PI_PARTS = {name: parts(PI / 4, name) for name in _WHOLE}
THIRD_PARTS = {name: parts(Fraction(1, 3), name) for name in _WHOLE}
LOG2_E = float(1 / LN2)


@functools.cache
def two_over_pi(fraction_bits: int) -> int:
    """2 / pi times 2^fraction_bits, rounded down."""
    guard = fraction_bits + 64
    return (2 << (guard + fraction_bits)) // _pi_times(guard)


def _pi_times(bits: int) -> int:
    """Pi times 2^bits by Machin's formula."""

    def inverse_tangent(n: int) -> int:
        term = total = (1 << bits) // n
        k, square = 1, n * n
        while term:
            term //= square
            k += 2
            total += -(term // k) if k & 2 else term // k
        return total

    return 16 * inverse_tangent(5) - 4 * inverse_tangent(239)
