"""sin, cos and tan for every argument, by one reduction that has no branch.

x = M 2^e with M whole, so only 2/pi 2^e modulo 4 counts for the quadrant and the fraction of it:
Payne and Hanek's reduction. The remainder is a sum of floats of type f64, the same for a range of
exponents. f32 has four ranges of three floats, chosen by selection. The first two floats are short,
so that their products with x are exact. f64 has ranges of 16 exponents in a table, of four floats
each. These are enough for the f64 closest to a multiple of pi/2, 2^-61 off, and 53 bits after.
"""

import functools
import math
from fractions import Fraction

import numpy as np

from xla_server.codegen.functions.real.coefficients import COS, SIN
from xla_server.codegen.functions.real.irrational import HALF_PI_PARTS, leading, two_over_pi
from xla_server.codegen.functions.values import (
    Table,
    Value,
    bits,
    exact_product,
    exact_sum,
    exact_sum_ordered,
    family,
    floor,
    fma,
    high_word,
    nearest,
    of_bits,
    polynomial,
    rounded,
    select,
    to,
)

_DIGITS = 1400
_STEP = 16
_FIRST = -32
"""The smallest exponent that the rows for f64 tell apart; smaller ones are taken for it."""


def _row(exponent: int, lengths: tuple[int, ...]) -> list[float]:
    """2/pi 2^exponent modulo 4, between -2 and 2, as a sum of floats of these lengths in bits."""
    value = Fraction(_two_over_pi(), 1 << _DIGITS) * Fraction(2) ** exponent
    value -= 4 * round(value / 4)
    row = []
    for length in lengths:
        part = leading(value, length)
        row.append(float(part))
        value -= part
    return row


@functools.cache
def _two_over_pi() -> int:
    return two_over_pi(_DIGITS)


_RANGES_F32 = (0, 50, 76, 102)
"""The smallest exponent of each range of f32; all of 2/pi counts in the first."""


@functools.cache
def _rows_f32() -> list[list[float]]:
    """Three floats for each range; x times their sum is the number of quadrants modulo 4."""
    whole = _row(0, (29, 29, 53))
    others = [[word * 2.0 ** (23 - e) for word in _row(e - 23, (29, 29, 53))] for e in _RANGES_F32]
    return [whole, *others[1:]]


@functools.cache
def _table_f64() -> Table:
    rows = [_row(e - 52, (53, 53, 53, 53)) for e in range(_FIRST, 1024, _STEP)]
    return Table("xla_two_over_pi_f64", np.array(rows).tobytes())


def _reduced_f32(x: Value) -> tuple[Value, Value, Value]:
    number = to("f64", x)
    words = [number.constant(word) for word in _rows_f32()[0]]
    for start, row in zip(_RANGES_F32[1:], _rows_f32()[1:], strict=True):
        inside = abs(x) >= 2.0**start
        words = [select(inside, number.constant(w), old) for w, old in zip(row, words, strict=True)]
    first, second, third = words
    n, quadrant = nearest(number, first)
    m, second_quadrant = nearest(number, second)
    turns = fma(number, third, fma(number, first, -n) + fma(number, second, -m))
    rest, third_quadrant = nearest(turns, 1.0)
    angle = (turns - rest) * HALF_PI_PARTS["f64"][0]
    r = to("f32", angle)
    return quadrant + second_quadrant + third_quadrant, r, to("f32", angle - to("f64", r))


def _reduced_f64(x: Value) -> tuple[Value, Value, Value]:
    whole = bits(x)
    exponent = ((high_word(whole) >> 20) & 0x7FF) - (1023 + _FIRST)
    exponent = select(exponent > 0, exponent, 0)
    last = 1023 - _FIRST
    exponent = select(exponent < last, exponent, last)
    fraction = whole & -0x7FF0000000000001
    number = of_bits(fraction | (to("i64", (exponent & (_STEP - 1)) + (1023 + 52)) << 52))
    row = (exponent >> 4) << 2
    table = _table_f64()
    product, product_low = exact_product(number, table.at(row))
    second, second_low = exact_product(number, table.at(row + 1))
    third, third_low = exact_product(number, table.at(row + 2))
    n = rounded(product)
    total, rest = exact_sum(product_low, second)
    total, error = exact_sum(product - n, total)
    m = rounded(total)
    small, small_error = exact_sum(second_low, third)
    rest, rest_error = exact_sum(rest, small)
    tail = rest_error + (small_error + fma(number, table.at(row + 3), third_low))
    high, low = exact_sum(total - m, error)
    high, more = exact_sum(high, rest)
    high, low = exact_sum_ordered(high, low + (more + tail))
    quadrant = to("i32", fma(floor(n * 0.25), -4.0, n)) + to("i32", m)
    first, then = HALF_PI_PARTS["f64"]
    r = high * first
    return quadrant, r, fma(high, first, -r) + fma(high, then, low * first)


def _reduced(x: Value) -> tuple[Value, Value, Value]:
    """(n, r, rest): x = n pi/2 + r + rest, n modulo 4."""
    return _reduced_f32(x) if x.type == "f32" else _reduced_f64(x)


def _sin_and_cos(r: Value, rest: Value) -> tuple[Value, Value]:
    z = r * r
    half = z * 0.5
    near_one = 1 - half
    sine = r + fma(z * r, polynomial(z, SIN[r.type]), fma(rest, -half, rest))
    error = (1 - near_one) - half
    cosine = near_one + fma(z * z, polynomial(z, COS[r.type]), fma(-r, rest, error))
    return sine, cosine


def _of_quadrant(n: Value, sine: Value, cosine: Value) -> Value:
    value = select((n & 1).differs(0), cosine, sine)
    return select((n & 2).differs(0), -value, value)


_STRAIGHT = {"f32": 2.0**-14, "f64": 2.0**-30}
"""Size of arguments below which sin x and tan x are x to the last bit."""


def _finite(x: Value, result: Value) -> Value:
    return select(abs(x) < math.inf, result, math.nan)


def sin(x: Value) -> Value:
    """The sine."""
    n, r, rest = _reduced(x)
    result = _of_quadrant(n, *_sin_and_cos(r, rest))
    return select(abs(x) >= _STRAIGHT[x.type], _finite(x, result), x)


def cos(x: Value) -> Value:
    """The cosine."""
    n, r, rest = _reduced(x)
    return _finite(x, _of_quadrant(n + 1, *_sin_and_cos(r, rest)))


def tan(x: Value) -> Value:
    """The tangent: sine over cosine, or the reverse, negated; both as sums of two floats."""
    n, r, rest = _reduced(x)
    (sine, sine_low), (cosine, cosine_low) = _sums_of_sin_and_cos(r, rest)
    odd = (n & 1).differs(0)
    top, bottom = select(odd, -cosine, sine), select(odd, sine, cosine)
    top_low = select(odd, -cosine_low, sine_low)
    bottom_low = select(odd, sine_low, cosine_low)
    quotient = top / bottom
    error = fma(-quotient, bottom, top) + fma(-quotient, bottom_low, top_low)
    result = quotient + error / bottom
    return select(abs(x) >= _STRAIGHT[x.type], _finite(x, result), x)


def _sums_of_sin_and_cos(r: Value, rest: Value) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
    """Sine and cosine as `_sin_and_cos` has them, each with what its last addition leaves out."""
    z, z_low = exact_product(r, r)
    half = z * 0.5
    near_one, error = exact_sum_ordered(r.constant(1), -half)
    tail = fma(z * r, polynomial(z, SIN[r.type]), fma(rest, -half, rest))
    lower = fma(z * z, polynomial(z, COS[r.type]), fma(-r, rest, error)) - z_low * 0.5
    return exact_sum_ordered(r, tail), exact_sum_ordered(near_one, lower)


TRIGONOMETRIC = family(sin, cos, tan)
"""Every function of this module by its name in kernels."""
