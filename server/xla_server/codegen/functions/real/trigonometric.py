"""sin, cos and tan for every argument.

The reduction takes a multiple of pi/2, a sum of three floats, from the argument (Cody and Waite).
Large arguments are rare and use another one (Payne and Hanek): x 2/pi = M 2^e 2/pi with M an
integer, so the quadrant and the fraction depend on 2/pi 2^e modulo 4 alone.

F32 has that number as three words of a fixed-point number. F64 has it as a sum of four floats, the
same for 16 exponents, in a table. These are enough for the F64 closest to a multiple of pi/2, 2^-61
off, and 53 bits after.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from xla_server.codegen.functions.real import irrational
from xla_server.codegen.functions.values import (
    FORMAT,
    Coefficients,
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
    where_rare,
)

COS: Coefficients = {
    "f32": (
        0.04166664555668831, -0.0013887366512790322, 2.4438364562229253e-05,
    ),
    "f64": (
        0.0416666666666666, -0.001388888888887412, 2.480158728948013e-05, -2.7557314351706596e-07,
        2.0875723184075785e-09, -1.1359642997467595e-11,
    ),
}  # fmt: skip
"""(cos(r) - 1 + z / 2) / z^2 in z = r^2, |r| <= pi / 4.

Error before rounding: f32 2^-33.3, f64 2^-64.2.
"""

SIN: Coefficients = {
    "f32": (
        -0.1666666716337204, 0.008332733064889908, -0.00019578092906158417,
    ),
    "f64": (
        -0.16666666666666666, 0.00833333333332903, -0.0001984126983417948, 2.7557314997019122e-06,
        -2.5050938790948924e-08, 1.5906233288057235e-10,
    ),
}  # fmt: skip
"""(sin(r) - r) / r^3 in z = r^2, |r| <= pi / 4; relative.

Error before rounding: f32 2^-27.0, f64 2^-57.4.
"""

_DIGITS = 1400
_STEP = 16
"""Binary digits of 2/pi, enough for exponents up to 1024; exponents per row of the table."""

_FIRST = -32
"""Smallest exponent of the rows for f64; smaller exponents are replaced by it."""


Reduced: TypeAlias = tuple[Value, Value, Value]
"""(n, r, rest): an argument is n pi/2 + r + rest, n modulo 4."""


def _row(exponent: int, lengths: tuple[int, ...]) -> list[float]:
    """Return 2/pi 2^exponent modulo 4, in [-2, 2], as floats with these numbers of bits."""
    value = Fraction(irrational.two_over_pi(_DIGITS), 1 << _DIGITS) * Fraction(2) ** exponent
    value -= 4 * round(value / 4)
    row = []
    for length in lengths:
        part = irrational.leading(value, length)
        row.append(float(part))
        value -= part
    return row


_LARGE = {"f32": 17, "f64": 30}
"""Exponent of the smallest numbers that are reduced by Payne and Hanek."""

_HALF_PI = {name: irrational.parts(irrational.PI / 2, name, count=3) for name in FORMAT}

_WORDS = 7
"""Words of 1 / (2 pi) 2^(17 - 23): enough for 96 bits from any exponent's offset on."""


@functools.cache
def _words_f32() -> list[int]:
    """Return the fraction of 1 / (2 pi) 2^(17 - 23) in words of 32 bits, the highest first."""
    bits_of_all = 32 * _WORDS
    turns = irrational.two_over_pi(bits_of_all + 8) >> (2 + 8 + 23 - _LARGE["f32"])
    return [(turns >> (bits_of_all - 32 * k)) & 0xFFFFFFFF for k in range(1, _WORDS + 1)]


@functools.cache
def _table_f64() -> Table:
    rows = [_row(e - 52, (53, 53, 53, 53)) for e in range(_FIRST, 1024, _STEP)]
    return Table("xla_two_over_pi_f64", np.array(rows).tobytes())


def _reduced(x: Value) -> Reduced:
    """Return the reduced argument; large ones take a branch."""
    first, second, third = _HALF_PI[x.type]
    n, quadrant = nearest(x, 2 / math.pi)
    # Neither term has bits below the last one of `first`, so the difference is exact.
    near = fma(-n, first, x)
    product, product_low = exact_product(n, x.constant(second))
    high, low = exact_sum(near, -product)
    r, rest = exact_sum_ordered(high, fma(n, -third, low - product_low))
    large = abs(x) >= 2.0 ** _LARGE[x.type]
    reduced = _reduced_f32 if x.type == "f32" else _reduced_f64
    quadrant, r, rest = where_rare(large, lambda: reduced(x), (quadrant, r, rest))
    return quadrant, r, rest


def _reduced_f32(x: Value) -> Reduced:
    """Reduce a large f32 by integer arithmetic."""
    whole = bits(abs(x))
    offset = (whole >> 23) - (127 + _LARGE["f32"])
    index, shift = offset >> 5, to("i64", offset & 31)
    words = [shift.constant(word) for word in _words_f32()]
    read = [_at(index, words[k : k + _WORDS - 3]) for k in range(4)]
    a, b, c = (_joined(*pair, shift) for pair in itertools.pairwise(read))
    mantissa = to("i64", (whole & 0x7FFFFF) | 0x800000)
    # The angle in units of 2^-64 turns: whole turns overflow.
    turn = (mantissa * a << 32) + mantissa * b + (mantissa * c >> 32)
    quadrant = (turn + (1 << 61)) >> 62
    rest = turn - (quadrant << 62)
    high = to("f32", rest)
    low = to("f32", rest - to("i64", high))
    first, second = (part * 2.0**-62 for part in _HALF_PI["f32"][:2])
    r, error = exact_product(high, high.constant(first))
    r, error = exact_sum_ordered(r, fma(high, second, fma(low, first, error)))
    negative = bits(x) < 0
    n = to("i32", quadrant)
    return select(negative, 0 - n, n), select(negative, -r, r), select(negative, -error, error)


def _at(index: Value, words: Sequence[Value]) -> Value:
    """Return the integer at an index, by selects."""
    found = words[0]
    for number, word in enumerate(words[1:], 1):
        found = select(index >= number, word, found)
    return found


def _joined(high: Value, low: Value, shift: Value) -> Value:
    """Return 32 bits of two words, from `shift` bits after the begin of the first."""
    return (((high << 32) | low) >> (32 - shift)) & 0xFFFFFFFF


def _reduced_f64(x: Value) -> Reduced:
    """Reduce any f64 by a table."""
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
    first, then = irrational.HALF_PI_PARTS["f64"]
    r = high * first
    return quadrant, r, fma(high, first, -r) + fma(high, then, low * first)


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
"""Size of arguments below which sin x and tan x round to x."""


def _finite(x: Value, result: Value) -> Value:
    return select(abs(x) < math.inf, result, math.nan)


def sin(x: Value) -> Value:
    """The sine."""
    n, r, rest = _reduced(x)
    return _sine(x, _of_quadrant(n, *_sin_and_cos(r, rest)))


def _sine(x: Value, result: Value) -> Value:
    return select(abs(x) >= _STRAIGHT[x.type], _finite(x, result), x)


def cos(x: Value) -> Value:
    """The cosine."""
    n, r, rest = _reduced(x)
    return _finite(x, _of_quadrant(n + 1, *_sin_and_cos(r, rest)))


def sin_and_cos(x: Value) -> tuple[Value, Value]:
    """Return both, for one reduction."""
    n, r, rest = _reduced(x)
    parts = _sin_and_cos(r, rest)
    return _sine(x, _of_quadrant(n, *parts)), _finite(x, _of_quadrant(n + 1, *parts))


def tan(x: Value) -> Value:
    """Return the tangent: sine / cosine, or -cosine / sine, both as sums of two floats."""
    n, r, rest = _reduced(x)
    (sine, sine_low), (cosine, cosine_low) = _sums_of_sin_and_cos(r, rest)
    odd = (n & 1).differs(0)
    top, bottom = select(odd, -cosine, sine), select(odd, sine, cosine)
    top_low = select(odd, -cosine_low, sine_low)
    bottom_low = select(odd, sine_low, cosine_low)
    quotient = top / bottom
    error = fma(-quotient, bottom, top) + fma(-quotient, bottom_low, top_low)
    return _sine(x, quotient + error / bottom)


def _sums_of_sin_and_cos(r: Value, rest: Value) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
    """Return sine and cosine as `_sin_and_cos`, each with the rounding error of its last sum."""
    z, z_low = exact_product(r, r)
    half = z * 0.5
    near_one, error = exact_sum_ordered(r.constant(1), -half)
    tail = fma(z * r, polynomial(z, SIN[r.type]), fma(rest, -half, rest))
    lower = fma(z * z, polynomial(z, COS[r.type]), fma(-r, rest, error)) - z_low * 0.5
    return exact_sum_ordered(r, tail), exact_sum_ordered(near_one, lower)


FORMULAS = family(sin, cos, tan)
"""Every function of this module by its name in kernels."""
